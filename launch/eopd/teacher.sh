# Sourced by serve-teacher.sh: the servers of a teacher.

PIDS=() LOGS=() URLS=() # per server

settle_teacher() {
    : "${TEACHER:=}" "${TEACHER_TP:=1}" "${TEACHER_HOST:=127.0.0.1}" "${TEACHER_PORT:=13141}"
    : "${TEACHER_ADDRESS:=$TEACHER_HOST}" "${TEACHER_MEMORY:=0.8}" "${TEACHER_CHUNK:=4096}"
    : "${TEACHER_WAIT:=1800}" "${POLL:=5}" "${PYTHON:=python3}" "${RUN_DIR:=$ROOT/runs/teacher}"
    [ -n "$TEACHER" ] || fail "TEACHER is not set; it is the teacher's Hugging Face folder"
    present "$TEACHER/config.json" TEACHER "set it to a Hugging Face model folder"
    whole TEACHER_TP 1
    whole TEACHER_PORT 1
    whole TEACHER_CHUNK 1
    whole TEACHER_WAIT 1
    case "$TEACHER_ADDRESS" in
        0.0.0.0 | ::) fail "TEACHER_ADDRESS is not set; TEACHER_HOST=$TEACHER_HOST has no address of its own" ;;
    esac
    [ -n "${TEACHER_GPUS:-}" ] || TEACHER_GPUS="${CUDA_VISIBLE_DEVICES:-$(all_gpus)}"
    read -ra GPUS <<<"${TEACHER_GPUS//,/ }"
    ((${#GPUS[@]} > 0)) || fail "nvidia-smi shows no GPU; set TEACHER_GPUS"
    ((${#GPUS[@]} % TEACHER_TP == 0)) ||
        fail "TEACHER_GPUS names ${#GPUS[@]} GPUs, no multiple of TEACHER_TP=$TEACHER_TP"
    SERVERS=$((${#GPUS[@]} / TEACHER_TP))
}

all_gpus() {
    local count
    count="$(count_gpus)"
    ((count == 0)) || seq -s ' ' 0 $((count - 1))
}

# each_server FUNCTION ARGUMENT...: FUNCTION NUMBER with SERVER_COMMAND and SERVER_PORT set.
each_server() {
    local function="$1" number gpus
    shift
    for ((number = 0; number < SERVERS; number++)); do
        gpus="${GPUS[*]:number * TEACHER_TP:TEACHER_TP}"
        SERVER_PORT=$((TEACHER_PORT + number))
        SERVER_COMMAND=(
            env "CUDA_VISIBLE_DEVICES=${gpus// /,}"
            "$PYTHON" -m sglang.launch_server
            --model-path "$TEACHER"
            --host "$TEACHER_HOST"
            --port "$SERVER_PORT"
            --tp-size "$TEACHER_TP"
            --mem-fraction-static "$TEACHER_MEMORY"
            --chunked-prefill-size "$TEACHER_CHUNK"
            "$@"
        )
        "$function" "$number"
    done
}

print_server() { quoted "${SERVER_COMMAND[@]}"; }

free_port() {
    ! listening 127.0.0.1 "$SERVER_PORT" || fail "port $SERVER_PORT is in use; set TEACHER_PORT"
}

# In a session of its own, so that its whole family can be stopped, and nothing else.
start_server() {
    local log="$RUN_DIR/server-$1.log"
    mkdir -p "$RUN_DIR" || fail "RUN_DIR: can't write to $RUN_DIR"
    quoted "${SERVER_COMMAND[@]}" >"$log"
    setsid "${SERVER_COMMAND[@]}" >>"$log" 2>&1 </dev/null &
    PIDS+=($!)
    LOGS+=("$log")
    URLS+=("http://$TEACHER_ADDRESS:$SERVER_PORT")
    say "server $1: GPU ${SERVER_COMMAND[1]#*=}, log $log"
}

wait_for_servers() {
    local number began="$SECONDS" host="$TEACHER_HOST"
    case "$host" in 0.0.0.0 | ::) host=127.0.0.1 ;; esac
    for number in "${!PIDS[@]}"; do
        until healthy "http://$host:$((TEACHER_PORT + number))/health_generate"; do
            all_run
            ((SECONDS - began < TEACHER_WAIT)) ||
                fail "server $number is not ready within $TEACHER_WAIT s (TEACHER_WAIT);" \
                    "see ${LOGS[number]}"
            sleep "$POLL"
        done
    done
}

healthy() { curl --silent --fail --noproxy '*' --max-time 60 --output /dev/null "$1"; }

# Ends the script when a server has ended.
all_run() {
    local number
    for number in "${!PIDS[@]}"; do
        kill -0 "${PIDS[number]}" 2>/dev/null || fail "server $number ended; see ${LOGS[number]}"
    done
}

# Until a server ends or the script is stopped.
stay() {
    while :; do
        all_run
        sleep "$POLL" &
        wait $! || true
    done
}

# signal_server SIGNAL PID: to its whole family.
signal_server() {
    kill "-$1" -- "-$2" 2>/dev/null || kill "-$1" "$2" 2>/dev/null || true
}

# Ends what start_server started: politely, and after a minute for good.
stop_servers() {
    local code=$? pid began="$SECONDS"
    trap - EXIT
    trap '' INT TERM HUP
    for pid in "${PIDS[@]}"; do signal_server TERM "$pid"; done
    for pid in "${PIDS[@]}"; do
        while kill -0 -- "-$pid" 2>/dev/null && ((SECONDS - began < 70)); do
            ((SECONDS - began < 60)) || signal_server KILL "$pid"
            sleep 0.2
        done
    done
    ((${#PIDS[@]} == 0)) || say "the teacher's servers are stopped"
    exit "$code"
}
