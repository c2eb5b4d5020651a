# Variables and their defaults.

count_gpus() {
    local count=0
    if command -v nvidia-smi >/dev/null; then
        count="$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')" || true
    elif [ "$DRY_RUN" = 1 ]; then
        count=8
    fi
    printf '%s\n' "$count"
}

# Nodes, GPUs, addresses, this node's part.
settle_cluster() {
    : "${NODES:=${SLURM_NNODES:-1}}" "${NODE_RANK:=${SLURM_NODEID:-0}}"
    : "${RAY_PORT:=6379}" "${DASHBOARD_PORT:=8265}" "${DASHBOARD_HOST:=127.0.0.1}"
    : "${JOIN_TIMEOUT:=600}" "${POLL:=5}" "${MODE:=colocate}" "${PYTHON:=python3}"
    [ -n "${GPUS_PER_NODE:-}" ] || GPUS_PER_NODE="$(count_gpus)"
    if [ -z "${ROLE:-}" ]; then
        ROLE="head"
        [ "$NODE_RANK" = 0 ] || ROLE="worker"
    fi
    among ROLE head worker attach
    among MODE colocate disaggregate async
    whole NODES 1
    whole JOIN_TIMEOUT 1
    [ "$GPUS_PER_NODE" != 0 ] || fail "nvidia-smi shows no GPU; set GPUS_PER_NODE"
    whole GPUS_PER_NODE 1
    settle_address
    : "${JOB_ADDRESS:=http://127.0.0.1:$DASHBOARD_PORT}"
}

# MASTER_ADDR: the head's address, as the workers reach it.
settle_address() {
    if [ "$NODES" = 1 ] && [ "$ROLE" != worker ]; then
        : "${MASTER_ADDR:=127.0.0.1}"
    fi
    [ -n "${MASTER_ADDR:-}" ] ||
        fail "MASTER_ADDR is not set; with NODES=$NODES it is the head's address for the others"
    if [ "$NODES" != 1 ]; then
        case "$MASTER_ADDR" in
            127.* | localhost | ::1) fail "MASTER_ADDR is $MASTER_ADDR, which no other node can reach" ;;
        esac
    fi
}

settle_paths() {
    : "${NAME:?}" "${MODEL_FILE:?}" "${HF_CHECKPOINT:?}" # the run script's business
    : "${SLIME_DIR:=}" "${REF_LOAD:=${HF_CHECKPOINT%/}_torch_dist}" "${RUN_DIR:=$ROOT/runs/$NAME}"
    : "${MEGATRON_DIR:=${SLIME_DIR:+$SLIME_DIR/../Megatron-LM}}"
    : "${TRAIN_DATA:=$DATA_DIR/qampari/train.parquet}" "${EVAL_DATA=$DATA_DIR/qampari/dev.parquet}"
    : "${STAMP:=$(date +%Y%m%d-%H%M%S)}" "${EVAL_NAME:=qampari_dev}" "${SPADER_CONFIG:=$ROOT/examples/qampari/qwen3.yaml}"
    [ -n "$SLIME_DIR" ] || fail "SLIME_DIR is not set; it is a checkout of slime (v0.3.1 or main)"
    MODEL_PATH="$SLIME_DIR/scripts/models/$MODEL_FILE.sh"
    [ -f "$MODEL_PATH" ] || fail "SLIME_DIR: no $MODEL_PATH; is this a checkout of slime?"
    [ -f "$SPADER_CONFIG" ] || fail "SPADER_CONFIG: no $SPADER_CONFIG"
    absolute SLIME_DIR MEGATRON_DIR HF_CHECKPOINT REF_LOAD RUN_DIR TRAIN_DATA EVAL_DATA SPADER_CONFIG
    case "$ROOT$SLIME_DIR$MEGATRON_DIR" in
        *:*) fail "a colon in a folder's name breaks PYTHONPATH: $ROOT, $SLIME_DIR, $MEGATRON_DIR" ;;
    esac
    [ "$ROLE" = worker ] || check_inputs
}

# absolute NAME...: paths as the job sees them, which runs in another folder.
absolute() {
    local name
    for name in "$@"; do
        [ -z "${!name}" ] || printf -v "$name" '%s' "$(realpath -ms "${!name}")"
    done
}

check_inputs() {
    present "$MEGATRON_DIR/megatron/training" MEGATRON_DIR "set it to a checkout of Megatron-LM"
    present "$HF_CHECKPOINT/config.json" HF_CHECKPOINT "set it to a Hugging Face model folder"
    present "$REF_LOAD/latest_checkpointed_iteration.txt" REF_LOAD \
        "${REF_LOAD_HINT:-make it: spader-slime import $(quoted --hf "$HF_CHECKPOINT" --out "$REF_LOAD")}"
    present "$TRAIN_DATA" TRAIN_DATA "${TRAIN_DATA_HINT:-make it with: spader-slime data convert}"
    [ -z "$EVAL_DATA" ] || present "$EVAL_DATA" EVAL_DATA "EVAL_DATA= leaves evaluation out"
}

# The router's build decides which policies its command line takes.
check_router() {
    [ -z "$ROUTER_POLICY" ] || "$PYTHON" - "$ROUTER_POLICY" <<'END'
import argparse
import sys

try:
    from sglang_router.router_args import RouterArgs
except ImportError as error:
    sys.exit(f"error: {sys.executable} can't import sglang_router ({error}); use slime's environment")
parser = argparse.ArgumentParser()
RouterArgs.add_cli_args(parser, use_router_prefix=True, exclude_host_port=True)
(policy,) = (action for action in parser._actions if "--router-policy" in action.option_strings)
if policy.choices and sys.argv[1] not in policy.choices:
    sys.exit(
        f"error: ROUTER_POLICY is {sys.argv[1]!r}; the sglang_router that is installed has only "
        f"{', '.join(policy.choices)} (slime's build has consistent_hashing too)"
    )
END
}

# list_variable NAME URLS: export NAME as a JSON list of the words of URLS, if there are any.
list_variable() {
    local urls
    read -ra urls <<<"$2"
    [ "${#urls[@]}" = 0 ] || export "$1=$(json_list "${urls[@]}")"
}

# What the YAML file says of loop, loss and teacher; MODE and the URLS reach it as variables.
settle_method() {
    local said rollout=sync
    [ "$MODE" != async ] || rollout=fully_async
    export SPADER_ROLLOUT="$rollout"
    list_variable SPADER_SEARCH_URLS "${SEARCH_URLS:-}"
    list_variable SPADER_TEACHER_URLS "${TEACHER_URLS:-}"
    said="$(read_method)" || exit 1
    # shellcheck disable=SC2034 # the others: fill_options
    read -r ROLLOUT_LOOP LOSS_RATIO LOSS_AGGREGATE DISTILL REVERSE_KL_COEF <<<"$said"
    [ "$ROLLOUT_LOOP" = "$rollout" ] || fail "MODE=$MODE needs 'rollout: $rollout' in $SPADER_CONFIG" \
        "(or \${oc.env:SPADER_ROLLOUT,sync}), not '$ROLLOUT_LOOP'"
}

read_method() {
    PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}" "$PYTHON" - "$SPADER_CONFIG" <<'END'
import sys

try:
    from spader_slime.config import load_spader
    from spader_slime.errors import SpaderError
except ImportError as error:
    sys.exit(f"error: {sys.executable} can't import spader_slime ({error}); pip install it there")
try:
    config = load_spader(sys.argv[1])
except SpaderError as error:
    sys.exit(f"error: {error}")
teacher = config.distillation
distill = teacher.reverse if teacher.active else "off"
print(config.rollout, config.loss.ratio, config.loss.aggregate, distill, teacher.reverse_kl_coef)
END
}
