#!/usr/bin/env bash
# A teacher for 3-eopd-search.sh: SGLang servers, one per TEACHER_TP GPUs.
#
#   TEACHER=~/models/search-specialist TEACHER_GPUS="4 5 6 7" bash launch/eopd/serve-teacher.sh
#
# Prints TEACHER_URLS on stdout once every server is ready, then stays; Ctrl-C stops them all.
#
#   TEACHER            Hugging Face folder of the teacher: the student's tokenizer
#   TEACHER_GPUS       which GPUs (default: all that nvidia-smi shows); "4 5" or "4,5"
#   TEACHER_TP         GPUs per server (default 1)
#   TEACHER_HOST       where it listens (127.0.0.1: this node only; no server asks who is calling)
#   TEACHER_ADDRESS    this node's name or address for the students' nodes (default TEACHER_HOST)
#   TEACHER_PORT       of the first server, the others follow (13141)
#   TEACHER_MEMORY     share of GPU memory (0.8)     TEACHER_CHUNK  tokens per prefill (4096): its
#                      scores take CHUNK x vocabulary x 4 bytes
#   TEACHER_WAIT       seconds until ready (1800)    DRY_RUN=1      prints the commands only
#
# Further arguments go to SGLang.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/teacher.sh"

settle_teacher
if [ "$DRY_RUN" = 1 ]; then
    each_server print_server "$@"
else
    each_server free_port
    trap stop_servers EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    each_server start_server "$@"
    wait_for_servers
    printf 'TEACHER_URLS="%s"\n' "${URLS[*]}"
    say "the teacher is ready; logs in $RUN_DIR"
    stay
fi
