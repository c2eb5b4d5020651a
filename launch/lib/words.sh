# Words, numbers and JSON.

# quoted WORD...: one line that a shell reads back as these words.
quoted() {
    local word line="" escaped="'\\''"
    for word in "$@"; do
        case "$word" in
            "" | *[!A-Za-z0-9_/.,:=@%+-]*) word="'${word//"'"/"$escaped"}'" ;;
        esac
        line+="${line:+ }$word"
    done
    printf '%s\n' "$line"
}

# json_text TEXT: a JSON string.
json_text() {
    local text="${1//\\/\\\\}"
    printf '"%s"' "${text//\"/\\\"}"
}

# json_list WORD...: a JSON list of strings.
json_list() {
    local word list=""
    for word in "$@"; do
        list+="${list:+,}$(json_text "$word")"
    done
    printf '[%s]' "$list"
}

# whole NAME LEAST: the variable NAME holds a whole number of at least LEAST.
whole() {
    if ! [[ "${!1}" =~ ^[0-9]+$ ]] || ((10#${!1} < $2)); then
        fail "$1 is '${!1}'; expected a whole number of at least $2"
    fi
}

# among NAME WORD...: the variable NAME holds one of the words.
among() {
    local name="$1" word
    shift
    for word in "$@"; do
        [ "${!name}" = "$word" ] && return
    done
    fail "$name is '${!name}'; expected one of: $*"
}

# present PATH NAME HINT: PATH is there, else fail; a dry run only remarks on it.
present() {
    [ -e "${1%@\[*}" ] && return # slime takes FILE@[first:last]
    [ "$DRY_RUN" = 1 ] || fail "$2: no $1; $3"
    say "not here: $1 ($2)"
}
