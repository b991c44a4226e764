# A worker that needs nothing but a shell, curl, grep and sed: sh curl_worker.sh API NAME DIARY STOP
# It takes letters, writes each task id it runs into DIARY, and says how the run went, until there is a file STOP.
set -eu
api=$1 name=$2 diary=$3 stop=$4

say() { # PATH BODY
    curl -sS --max-time 60 -H 'Content-Type: application/json' -d "$2" "$api$1"
}

problem() {
    echo "$1" >>"$diary.problems"
    case $1 in *store-unavailable*) ;; *) exit 1 ;; esac # what is away for a moment is asked again
}

settle() { # TASK TOKEN: saying it again is harmless
    while :; do
        said=$(say /claims/settle "{\"task_id\": \"$1\", \"token\": \"$2\", \"outcome\": \"succeeded\"}")
        case $said in
            *'"status": "completed"'*) return ;;
            *) problem "settle: $said" ;;
        esac
    done
}

while [ ! -e "$stop" ]; do
    claims=$(say /claims "{\"worker\": \"$name\", \"limit\": 10, \"lease_seconds\": 120}")
    case $claims in
        *urn:mahavishnu:problem*) problem "claim: $claims" ;;
    esac
    # Each claim has its token, and then its letter's task.
    printf '%s' "$claims" | grep -o -E '"(token|task_uuid)": "[^"]*"' | sed 's/.*: "\(.*\)"/\1/' |
        while read -r token && read -r task; do
            echo "$task" >>"$diary"
            settle "$task" "$token"
        done
done
