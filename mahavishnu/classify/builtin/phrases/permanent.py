"""What is not there, or never will be. The category is that of an unknown error, but the reason is a better one."""

from __future__ import annotations

PHRASES: dict[int, str] = {
    1: """
    index out of range|bounds
    # bugs of a program
    null|nil pointer|reference
    object reference not set
    properties|property of undefined|null
    call to undefined|a_member|a_null
    secret|configmap|config_map|volume .. not_found
    enoent|enxio|enodev|esrch|enosys|eopnotsupp|enotsup|exdev|echild|enoexec
    invalid cross device link
    operation not supported $
    operation not supported on_transport_endpoint
    maximum call stack
    goroutines are asleep
    cannot access a disposed
    could not load file|type|assembly|library|module
    unable to open database
    disk image is malformed
    file is not a database
    invalid page in
    unknown database
    transaction is already_begun
    manifest unknown|not_found
    backoff limit
    illegal instruction
    invalid pointer
    no such exchange|vhost
    """,
    2: """
    no .. named|called ..
    manifest|image|tag|revision|branch|commit|package|release|artifact|blob|layer .. %be* not_found|unknown|gone
    """,
    3: """
    not be? found !guilty
    could_not|cannot|unable_to|failed_to be? found|find|locate|located
    no .... found $
    no .. .. found
    does_not|do_not|did_not|no_longer|not|never exist|exists
    no such
    not match any
    stack overflow
    not yet? implemented
    unimplemented
    no module named
    cannot import
    has no attribute
    is not defined
    has_been|is|was|permanently deprecated|retired|decommissioned|discontinued|removed|deleted|gone
    not a git repository
    panicked at
    segmentation fault
    no .. time|retries|retry|attempts|tries|choice|option|options|work|steps|data|items|rows left|remaining
    """,
}
