# This node's part of the Ray cluster: started as a child process, so that it alone is stopped.

RAY_PID=""

ray_command() {
    RAY_COMMAND=(ray start --num-gpus "$GPUS_PER_NODE" --disable-usage-stats --block)
    if [ "$ROLE" = head ]; then
        RAY_COMMAND+=(--head --node-ip-address "$MASTER_ADDR" --port "$RAY_PORT"
            --dashboard-host "$DASHBOARD_HOST" --dashboard-port "$DASHBOARD_PORT")
    else
        RAY_COMMAND+=(--address "$MASTER_ADDR:$RAY_PORT")
    fi
}

# listening HOST PORT: something accepts connections there.
listening() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

check_ray() {
    command -v ray >/dev/null || fail "no program 'ray' on PATH; run this in slime's environment"
}

# start_ray LOG: in the background; RAY_PID is its process.
start_ray() {
    ray_command
    export PYTHONUNBUFFERED=1 no_proxy="127.0.0.1,localhost,$MASTER_ADDR${no_proxy:+,$no_proxy}"
    say "Ray $ROLE: $GPUS_PER_NODE GPUs, log $1"
    "${RAY_COMMAND[@]}" >"$1" 2>&1 &
    RAY_PID=$!
}

stop_ray() {
    [ -n "$RAY_PID" ] || return 0
    local began="$SECONDS"
    kill -TERM "$RAY_PID" 2>/dev/null || return 0
    say "stopping this node's Ray"
    while kill -0 "$RAY_PID" 2>/dev/null; do
        sleep 0.2
        if ((SECONDS - began > 60)); then
            say "Ray (process $RAY_PID) does not end; its processes may be left behind"
            kill -KILL "$RAY_PID" 2>/dev/null || true
            return
        fi
    done
}

free_ports() {
    local name
    for name in RAY_PORT DASHBOARD_PORT; do
        ! listening 127.0.0.1 "${!name}" || fail "port ${!name} is in use, by another Ray perhaps:" \
            "set $name, or ROLE=attach to use the Ray that is there"
    done
}

gpus_joined() {
    ray status --address "$MASTER_ADDR:$RAY_PORT" 2>/dev/null |
        sed -nE '0,/ GPU/s|.*/([0-9]+)(\.[0-9]+)? GPU.*|\1|p'
}

# wait_for_gpus LOG: until the GPUs of all nodes are there.
wait_for_gpus() {
    local wanted=$((NODES * GPUS_PER_NODE)) found=0 last="" began="$SECONDS"
    while :; do
        kill -0 "$RAY_PID" 2>/dev/null || fail "Ray ended while it started; see $1"
        found="$(gpus_joined)" || true
        found="${found:-0}"
        ((found < wanted)) || break
        [ "$found" = "$last" ] || say "$found of $wanted GPUs are there"
        last="$found"
        ((SECONDS - began < JOIN_TIMEOUT)) || fail "$found of $wanted GPUs joined within" \
            "$JOIN_TIMEOUT s (JOIN_TIMEOUT); start the missing workers or look at their logs"
        sleep "$POLL"
    done
    say "all $wanted GPUs are there"
}

# A worker joins when the head is up, and ends with it.
run_worker() {
    local began="$SECONDS" log code=0
    check_ray
    log="$(log_file "ray-$NODE_RANK")"
    until listening "$MASTER_ADDR" "$RAY_PORT"; do
        ((SECONDS - began < JOIN_TIMEOUT)) ||
            fail "no Ray head at $MASTER_ADDR:$RAY_PORT within $JOIN_TIMEOUT s (JOIN_TIMEOUT)"
        sleep "$POLL"
    done
    trap_exit
    start_ray "$log"
    wait "$RAY_PID" || code=$?
    RAY_PID=""
    if listening "$MASTER_ADDR" "$RAY_PORT"; then
        fail "Ray ended on this node (exit code $code) while the head is up; see $log"
    fi
    say "the head is gone: done"
}
