"""Something ran out: memory, disk, quota, connections, processes."""

from __future__ import annotations

PHRASES: dict[int, str] = {
    1: """
    fork: .. resource temporarily unavailable
    cannot fork
    misconf redis is configured to save
    enospc|edquot|enomem|emfile|enfile|efbig|enobufs|emlink|enolck|eusers|eio
    input/output error
    disk i/o error
    i/o device error
    no locks available
    pool timed_out|timeout
    connection is not available, request timed_out
    prior to obtaining a connection
    too many links $
    ^ too many users $
    no connection became free
    queue pool limit
    too many errors_from|connection_errors
    many connection errors
    error 28 from
    request limit for_the_database
    batch too large
    too many_requests/12
    flood stage
    no more connections allowed
    too many .. pods|jobs|instances|containers|vms|volumes|snapshots|nodes
    address pool among|exhausted
    slow consumer $
    total size of serialized results
    violates accounting/qos policy
    no available|free memory|ram|vram|gpu_memory|heap
    usage %be* at? 100%|99%|98%
    memory allocation deadlock
    i/o error, dev
    i/o error on dev
    buffer i/o
    ports exhausted|depleted
    pthread|thread creation|create failed
    no space left
    no more|further|additional connections|threads|files|processes|sessions|workers|instances|jobs|pods|nodes .. can|
        could be opened|created|started|made|accepted|established|allocated|added|launched
    subscriber limit exceeded
    exit code|status 137 $
    read only / allow_delete
    exceed~ %the? .. physical|virtual|available|resident memory
    non zero exit code|status 137 $
    disk|memory|pid|storage pressure
    database|table|tablespace|partition|queue|log|volume|mailbox %be* reached|exceeded|hit its|the maximum|max size
    nospc
    """,
    2: """
    !not %out .... memory !of|leak|leaks|lane
    %out memory|ram|swap|heap|vram|disk|inodes|scratch_space
    %fail .. allocate|allocating|alloc|reallocate|allocation
    allocation|alloc|malloc|mmap|calloc .... failed|fail|failure|error
    array|buffer|tensor memory? too? large to allocate
    memory|heap|swap|ram limit|limits|quota|budget|usage|cap|size? .... exceeded|exceeds|reached|hit|exhausted|exceeding
    %over %the? .... memory|heap|ram limit|limits|quota|cap|budget|request|allocation|usage
    exceeding memory limits|limit
    memory|heap exhausted|exhaustion|pressure|overflow|full|error|exceeded
    exhausted .... memory
    used memory >
    no .. memory|ram|vram|swap left|available|remaining
    low memory
    bad alloc
    memory allocation error|failed
    oom|oomkilled|oomed killed|killer|command|kill|error|when?
    ^ oom $
    killed by oom
    heap space
    heap out_of|limit|is_full
    gc overhead limit
    metaspace
    exit|exited|terminated|status|returned|failed|ended with? exit? code|status? 137 $
    killed|terminated by|with signal? 9|sigkill
    killed by signal: killed
    signal: killed
    signal 9
    sigkill
    ^ killed $
    no|not|insufficient enough|more|sufficient|free|remaining? space|room %be* left|remaining|available|on_the_disk|
        on_device|on_disk|in_volume
    log|filegroup|segment|mount .... is|are %be* full
    paging|page|swap file|space is? too_small
    monthly|daily|hourly|weekly|annual .. limit|limits|cap|quota %be* %over
    no more? space left
    not|insufficient|out_of|low_on enough? .. disk|storage|free|local|temp|swap|available|tablespace? space !exploration
    %out .. disk|storage|tablespace|inodes|inode|file_descriptors|handles|file_handles|stack_space !of
    there is not enough space
    disk|volume|drive|filesystem|file_system|partition|storage|device|log|mailbox|queue|buffer|table|tablespace|pool|
        inbox|bucket|backlog|tmpfs|spool|journal|heap|cache .. %be* nearly|almost|completely|too? full !of|moon|scan|
        time|text|name|backup|speed|sync|refresh|color|screen
    disk|storage|volume|space usage|capacity|limit|quota|allocation|space? %be* exceeded|exceeds|exhausted|depleted|
        below
    exceed~ .... disk|storage limit|quota|capacity|watermark
    disk usage exceed~
    unable to extend
    quota %be* %over|full|error|violation|issue|reached_for
    quota .... %over
    %over %the? .... quota|quotas !of
    %out .. quota|credits|credit|balance|funds|tokens|minutes|build_minutes|capacity|resources|compute|cpu|cpus|gpu|
        gpus|nodes|slots|ip_addresses|addresses|seats|licenses !of
    insufficient .. quota|credits|funds|balance|capacity|resources|cpu|memory|gpu|disk|storage|instance_capacity|
        nvidia|shm|inodes|pods
    credit|credits|balance .. %be* too low|exhausted|depleted|insufficient
    too many open files|handles|sockets|file|connections|cursors
    too many files open
    too many .. connections|clients|sessions|processes|threads|locks|workers|cursors
    file|files|descriptor|descriptors|handle table? overflow|exhausted|exhaustion|limit
    file table overflow
    max|maximum number_of? .. connections|clients|sessions|processes|files|instances|shards|pods|jobs|containers|
        workers|nodes|users|functions|vms|streams|subscriptions|replicas|volumes|snapshots|threads|tasks|runs|
        executions|projects %be* %over
    connection|client|session limit %be* %over
    remaining connection slots
    connection|connections slots|slot %be* reserved|exhausted|in_use
    no more|free|available? connections|connection|slots|workers|threads|executors|permits|ports available|left|
        in_the_pool|in_pool|free|$
    waiting|obtaining|acquiring|getting|prior_to|from|for .... from the? .. pool
    pool %be* exhausted|depleted|exhaustion|empty|at_capacity|limit
    %fail start|create|spawn|fork|starting|creating|spawning new|more|a|any|native? thread|threads|process|processes
    fork: cannot|resource
    resource|resources limit|limits|quota? %be* exhausted|depleted|exceeded|insufficient|reached|exhaustion
    resource|resources .... exhausted
    resource limit|limits $
    low on system? resource|resources
    %out .. resource|resources
    capacity %be* exceeded|exhausted|full|insufficient
    exceed~ %the? .. capacity|resources|resource
    all .. licenses|licences|seats|slots|addresses|ips|ports|gpus|connections|permits|threads %be* in_use|used|taken|
        assigned|allocated
    only .. .. left|remaining|free !to_do|day|days|in_stock
    does_not|do_not|did_not have .. enough|sufficient .. balance|resources|capacity|memory|disk|space|nodes|cpu|gpus|
        quota|credits|funds
    disk|volume|drive|partition|storage|log %be* filled|fills|filling up
    cpu|vcpu|compute|wall time? limit|quota %be* exceeded|reached|hit
    no buffer|sufficient space|capacity
    no capacity left|available|remaining|for
    due_to|because_of capacity|resource|memory|disk|quota .. constraint|constraints|restriction|restrictions|limit|
        limits|shortage|pressure
    space|memory|storage is|running|was|got? too? low
    memory|disk|cpu|thread|resource|connection|storage|inode starvation|shortage|depletion
    no free|available gpu|gpus|nodes|slots|workers|instances|addresses|ips|capacity
    buffer pool? exhausted
    add .. total shards
    maximum .. shards open
    maxmemory
    evicted|eviction due|because to|of? .. pressure|resource|memory|disk
    exceeding|exceeds approved|allowed|granted .. .. .. .. quota|cores|capacity
    exceeds|exceeded|exceeding .... limit|limits of_containers|of_pod
    exceeds|exceeded internal|soft|hard memory? limit
    not enough .. nodes|workers|slots|gpus|cores|capacity
    account|plan|usage|monthly|daily|hourly|weekly|billing|subscription|tier|spending|license|storage|instance|vcpu|
        build|credit usage|minutes|account? limit|limits|cap %be* %over
    %over %the? .. usage|plan|monthly|daily|hourly|account|spending|storage|license|hard|free|credit|tier usage|tier|
        spending|request? limit|limits|cap|allowance
    limit|limits for .... %be* exceeded|reached
    enospc|enomem|emfile|enfile|edquot|enobufs
    volume|disk|drive|partition|storage|memory|heap|cpu|ram|swap|quota|mailbox|bucket|pool|tablespace|queue .... is|at|
        was at? 100%|99%|its_limit|full_capacity
    no gpu|gpus|worker|workers|slot|slots|licence|license|licences|licenses|memory|ram|disk|space|core|cores|quota|
        credits|credit|capacity|inodes|connections|threads|handles|ports left|available|free|remaining in|for|on|at|to|$
    all .... licenses|licences|seats|slots|gpus|connections|workers|permits|addresses .... %be* in_use|taken|assigned|
        allocated
    balance|credit|credits|funds .. %be* exhausted|depleted|used_up|spent|consumed|gone|insufficient|too_low
    allowance|budget|allotment .. %be* exhausted|depleted|used_up|fully_used|overspent
    api|monthly|daily|token|compute|cpu allowance|budget|allotment %be* used|spent|consumed|gone
    no more|further|additional connections|threads|files|processes|sessions|workers|instances|jobs|pods|nodes|
        gpus .. can|could|may|allowed|permitted
    used all of_your|of_its|of_the|your|its|available|the_available
    code|status is|was|of 137 $
    no space on
    100%|99%|98% used|full|utilized|utilised|consumed
    not fit in|into memory|ram|vram|the_buffer|shared_memory|gpu_memory|the_cache
    only .. gb|mb|gib|mib|tb|kb .. free|available|left|remaining
    maximum|max number of .... %over
    directory|folder|dir|tmp|store|archive|spooler|tray|rack|shelf|repository %be* full $
    tmpfs|shm|inodes|handles|buffers|slots|ports|addresses|licences|licenses|swap|ram|vram|threads|
        descriptors %be* exhausted|depleted|used_up|all_used|all_taken
    budget|quota|allowance %be* exceeded|exhausted|overrun
    more disk|memory|ram|space|storage|cpu|gpus|vram than
    memory|disk|storage|ram ceiling|cap|threshold
    %fail reserve|map|grow|extend|commit .. gb|gib|mb|mib|tb|bytes|memory|heap|pages
    no ip_addresses|addresses|ips|ip_address left|available|free
    heap|memory|rss|footprint|process|worker|usage .... grew|grown|rose|went|swelled|climbed beyond|past|over|above|
        to .. mb|gb|mib|gib
    0|zero|no bytes|byte|kb|mb|gb|blocks|inodes .. free|left|available|remaining
    %over %the? maximum|max|allowed|permitted|configured number|amount|count of .. connections|clients|sessions|
        processes|files|cursors|instances|shards|pods|jobs|containers|workers|nodes|users|threads|tasks|runs|volumes|
        handles|sockets|seats|licenses|licences|devices
    used|using|uses|needs|needed|requires|required|consumed|consumes|consuming more_than|over|about|at_least|up_to|
        another? .. gb|gib|tb|tib of_memory|of_ram|of_disk|$
    no|not_enough|insufficient space in|available|left|for
    insufficient|not_enough space
    %out paper|ink|toner|supplies|fuel|labels|tapes
    %over %the? maximum|max|allowed|permitted|configured open|concurrent|active|running files|connections|cursors|
        sessions|handles|sockets
    """,
    3: """
    disk|drive|storage|raid|hardware error|errors|failure|fault !report
    requested|requests|asked_for|needs|need|needed|required|requires|wanted .. .. .. .. only .. .. available|free|left|
        remaining
    balance|credit|credits|quota|allowance .... is|are|at 0|zero|negative
    ulimit|rlimit|nofile|nproc ..
    """,
    4: """
    %be* used_up|all_used $
    is|are|was|were|been exhausted|depleted|used_up
    !speed|age|retry|retries|attempt|attempts|recursion|redirect|word|character|time|size|length limit|
        limits %be* reached|exceeded|hit|exhausted
    %over %the? .. .. limit|limits
    ^ .. memory|disk|quota|resource error|full|failure|problem|issue $
    has|have|had|are|is|with|were|was no .. .. left|remaining !in|for|to
    limit|limits|cap|ceiling of|for|on the|your|this .... %be* reached|exhausted|used_up|hit
    has|have|had|are|is|with|were|was no|0|zero empty|free|spare|vacant|idle ..
    """,
    5: """
    %bad ........ memory|disk|quota|quotas|storage|capacity|heap|inode|inodes|descriptors|cpu|gpu|vram|swap|filesystem
    memory|disk|quota|quotas|storage|capacity|heap|inode|inodes|descriptors|cpu|gpu|vram|swap|filesystem ........ %bad
    """,
}
