# The training job: doctor, submission, and what is stopped at the end.

FOLLOW_PID=""
JOB_ID="" # set while the job may run

# log_file PART: where that part of this run is logged.
log_file() {
    mkdir -p "$RUN_DIR/logs" || fail "RUN_DIR: can't write to $RUN_DIR"
    printf '%s/logs/%s-%s.log\n' "$RUN_DIR" "$STAMP" "$1"
}

doctor_command() {
    DOCTOR_COMMAND=(
        spader-slime doctor --config "$SPADER_CONFIG" --slime-args
        "$SLIME_DIR/$DRIVER" "${TRAIN_ARGS[@]}"
    )
}

# Environment of driver, trainers and engines, as JSON.
runtime_env() {
    local pair list="" nvlink=0
    if nvidia-smi topo -m 2>/dev/null | grep -q 'NV[0-9]'; then nvlink=1; fi
    for pair in \
        "PYTHONPATH=$MEGATRON_DIR:$SLIME_DIR:$ROOT" \
        CUDA_DEVICE_MAX_CONNECTIONS=1 \
        "NCCL_NVLS_ENABLE=$nvlink" \
        "MASTER_ADDR=$MASTER_ADDR" \
        "no_proxy=127.0.0.1,localhost,$MASTER_ADDR" \
        "SPADER_ROLLOUT=$SPADER_ROLLOUT" \
        "TENSORBOARD_DIR=$RUN_DIR/tensorboard" \
        ${SPADER_SEARCH_URLS:+"SPADER_SEARCH_URLS=$SPADER_SEARCH_URLS"} \
        ${SPADER_TEACHER_URLS:+"SPADER_TEACHER_URLS=$SPADER_TEACHER_URLS"}; do
        list+="${list:+, }$(json_text "${pair%%=*}"): $(json_text "${pair#*=}")"
    done
    printf '{"env_vars": {%s}}\n' "$list"
}

# job_commands ID: the job is handed over first and followed then, so that a broken log stream is
# not the end of the run.
job_commands() {
    JOB_COMMAND=(
        ray job submit --no-wait --address "$JOB_ADDRESS" --submission-id "$1"
        --runtime-env-json "$(runtime_env)"
        -- "$PYTHON" "$SLIME_DIR/$DRIVER" "${TRAIN_ARGS[@]}"
    )
    FOLLOW_COMMAND=(ray job logs --follow --address "$JOB_ADDRESS" "$1")
}

# One command a line, in the order in which this node would run them.
print_commands() {
    ray_command
    doctor_command
    job_commands "$NAME"
    if [ "$ROLE" != worker ] && [ -z "${SKIP_DOCTOR:-}" ]; then quoted "${DOCTOR_COMMAND[@]}"; fi
    if [ "$ROLE" != attach ]; then quoted "${RAY_COMMAND[@]}"; fi
    if [ "$ROLE" != worker ]; then
        quoted "${JOB_COMMAND[@]}"
        quoted "${FOLLOW_COMMAND[@]}"
    fi
}

run_doctor() {
    [ -z "${SKIP_DOCTOR:-}" ] || return 0
    command -v spader-slime >/dev/null ||
        fail "no program 'spader-slime' on PATH; pip install this package (SKIP_DOCTOR=1: no checks)"
    doctor_command
    "${DOCTOR_COMMAND[@]}" || fail "doctor found faults; mend them (SKIP_DOCTOR=1 starts all the same)"
}

run_head() {
    local log ray_log
    check_ray
    check_router
    run_doctor
    if [ "$ROLE" = head ]; then
        free_ports
        ray_log="$(log_file ray-0)"
        trap_exit
        start_ray "$ray_log"
        wait_for_gpus "$ray_log"
    fi
    trap_exit
    log="$(log_file train)"
    submit_job "$(log_file submit)"
    say "log $log; Ray's own under /tmp/ray/session_latest/logs; checkpoints $RUN_DIR/checkpoints"
    follow_job "$log"
    say "finished; checkpoints in $RUN_DIR/checkpoints"
}

# give_up MESSAGE...: there is no job to stop.
give_up() {
    JOB_ID=""
    fail "$@"
}

# submit_job LOG: Ray's job server and its agents come up after the nodes; until then, try again.
submit_job() {
    local id="$NAME-$STAMP-$$" began="$SECONDS"
    job_commands "$id"
    say "job $id"
    quoted "${JOB_COMMAND[@]}" >"$1"
    JOB_ID="$id"
    until "${JOB_COMMAND[@]}" >"$1.said" 2>&1; do
        cat "$1.said" >>"$1"
        grep -qE 'Failed to connect|No available agent' "$1.said" ||
            give_up "Ray refused the job; see $1"
        ((SECONDS - began < JOIN_TIMEOUT)) || give_up "no Ray job server at $JOB_ADDRESS" \
            "within $JOIN_TIMEOUT s (JOIN_TIMEOUT); it needs the package ray[default]; see $1"
        sleep "$POLL"
    done
    rm -f "$1.said"
}

# follow_job LOG: show what the job writes until it ends.
follow_job() {
    local status id="$JOB_ID" heard="$SECONDS"
    while :; do
        "${FOLLOW_COMMAND[@]}" > >(tee "$1") 2>&1 &
        FOLLOW_PID=$!
        wait "$FOLLOW_PID" || true
        FOLLOW_PID=""
        status="$(timeout 60 ray job status --address "$JOB_ADDRESS" "$id" 2>&1)" || true
        case "$status" in
            *"' succeeded"*) JOB_ID="" && return ;;
            *"' failed"*) give_up "the job failed; see $1" ;;
            *"' was stopped"*) give_up "the job was stopped; see $1" ;;
            *RUNNING* | *PENDING*) heard="$SECONDS" ;;
        esac
        [ -z "$RAY_PID" ] || kill -0 "$RAY_PID" 2>/dev/null ||
            fail "Ray ended on this node; see $RUN_DIR/logs/$STAMP-ray-0.log"
        ((SECONDS - heard < JOIN_TIMEOUT)) ||
            fail "no word of job $id from $JOB_ADDRESS for $JOIN_TIMEOUT s; see $1"
        sleep "$POLL"
    done
}

trap_exit() {
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

# Stops the job and the Ray that this script started, nothing else.
clean_up() {
    local code=$?
    trap - EXIT
    trap '' INT TERM HUP
    if [ -n "$JOB_ID" ]; then
        say "stopping job $JOB_ID"
        timeout 60 ray job stop --address "$JOB_ADDRESS" "$JOB_ID" >/dev/null 2>&1 || true
    fi
    [ -z "$FOLLOW_PID" ] || kill "$FOLLOW_PID" 2>/dev/null || true
    stop_ray
    exit "$code"
}
