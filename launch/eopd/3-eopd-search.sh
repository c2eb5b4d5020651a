#!/usr/bin/env bash
# Stage 3 of examples/eopd_search: the model of stage 2 searches, and a search specialist teaches it.
#
#   TEACHER_URLS="http://10.0.0.2:13141" SLIME_DIR=~/slime ... bash launch/eopd/3-eopd-search.sh
#   SPADER_CONFIG=examples/eopd_search/spader_eopd.yaml SAMPLES=16 KL_COEF=0.001 ...
#                            with SPADER's rewards beside the teacher
#   MODE=async ...           also: colocate (default), disaggregate
#
# TEACHER_URLS: what serve-teacher.sh prints. Other variables as in ../run-qwen3-8b-spader.sh.
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

: "${NAME:=eopd-3-search}" "${MODEL_FILE:=qwen3-8B}"
: "${HF_CHECKPOINT:=$MODELS_DIR/Qwen3-8B-Base}" # tokenizer and shape; the weights are REF_LOAD's
: "${REF_LOAD:=$ROOT/runs/eopd-2-sft-tau/checkpoints}"
: "${TRAIN_DATA:=$DATA_DIR/eopd/train.parquet}" "${EVAL_DATA=$DATA_DIR/eopd/dev.parquet}"
: "${SPADER_CONFIG:=$ROOT/examples/eopd_search/eopd.yaml}"
: "${ITERATIONS:=300}" "${PROMPTS:=32}" "${SAMPLES:=8}" "${LR:=1e-6}" "${KL_COEF:=0}" "${TP:=2}"
# shellcheck disable=SC2034  # ../lib/settings.sh
REF_LOAD_HINT="run 2-sft-tau.sh, or set REF_LOAD to the checkpoints of another run" \
    TRAIN_DATA_HINT="make it with: spader-slime data convert --protocol search_r1"

# The teacher answers from here; the trainers' first question would come much later.
check_teacher() {
    local url urls
    read -ra urls <<<"$TEACHER_URLS"
    for url in "${urls[@]}"; do
        url="${url%/}" url="${url%/generate}"
        curl --silent --fail --noproxy '*' --max-time 30 --output /dev/null "$url/health" ||
            fail "no teacher answers at $url (TEACHER_URLS); start it: launch/eopd/serve-teacher.sh"
    done
}

[ -n "${TEACHER_URLS:-}" ] ||
    fail "TEACHER_URLS is not set; launch/eopd/serve-teacher.sh serves a teacher and prints it"
whole ITERATIONS 1
prepare
[ "$DISTILL" != off ] || fail "SPADER_CONFIG: no teacher in $SPADER_CONFIG;" \
    "it needs 'distillation: urls: \${oc.decode:\${oc.env:SPADER_TEACHER_URLS}}'"
[ "$DRY_RUN:$ROLE" != "0:head" ] || check_teacher
launch "$@"
