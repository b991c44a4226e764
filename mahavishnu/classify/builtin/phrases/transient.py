"""What passes: too much asked, contention, a service that is away for a while."""

from __future__ import annotations

PHRASES: dict[int, str] = {
    3: """
    sigterm
    received|got|caught|on signal? 15|sigint|sighup|termination_signal
    quota|limit|limits|maximum|max|allowed|only|more_than|over .. .. requests|calls|queries|messages|operations|
        logins per|a|an|each second|minute|hour
    """,
    1: """
    eintr|ewouldblock|ebusy|etxtbsy|edeadlk|einprogress|ealready|estale|ecanceled|erestart
    interrupted system call
    operation now? already? in_progress $
    resource deadlock avoided
    start or control request
    no live upstreams
    due to user_request
    stepped down
    is_being|being created|deleted|updated|modified !by
    is bootstrapping
    too many parts
    in readonly|read_only mode
    not enough good replicas
    force unblock
    not enough replicas
    multi attach error
    client rate limiter
    node %be* shutdown|shutting_down
    wrong last sequence
    must wait .. seconds|minutes|second|minute|hours|before|until_the
    poll interval .. exceeded
    zombie job|jobs|task|tasks
    exit|return code|status -15
    could_not|cannot|unable_to|failed_to lock ..
    authorization pending
    fatal: unable to create .... file exists
    quota exceeded ............ per minute|second|min|sec
    %over .... secondly|minutely|per_second|per_minute|requests_per_second|burst limit|quota
    exit code|status 143 $
    read only option
    previous|last|earlier|prior request|run|job|import|export|operation|sync|batch|call %be* still|being processed|
        running|in_progress|active|executing|pending|processing|open
    non zero exit code|status 143 $
    read_only|readonly during|while|until
    quota|quotas|limit|limits|usage|cap per minute|second|min|sec
    """,
    2: """
    # too much asked: wait
    !heart|interest|exchange|frame|tax|birth rate|request|requests|call|calls limit|limits|limiting|quota %be* %over|
        violation|error|exception|triggered|applied
    !heart rate limit|limits|limiting $
    %over %the? .. rate|request|requests|call|calls|ratelimit limit|limits
    %over %the? .. rate_limit|rate_limits|ratelimit
    rate|request|requests|being|are|was|got|been limited !to|by_law|edition
    ratelimited|ratelimit
    too|so many .. requests|calls|queries|attempts|retries !left
    rate exceeded
    maximum ... rate exceeded
    reduce|lower your? request|call|query? rate|rates|frequency
    %over .. .. calls|requests|queries per second|minute|hour|day
    request rate is? too? large|high
    throttled|throttling|throttlingexception !valve|body|cable|policy|settings|position|response|control|disabled|
        enabled
    throttle .. error|errors|exception|exceeded|limit|limits|reached|hit|triggered
    request|requests|api|rate|hit|client|server|due_to|because_of throttle
    ^ please? slow down $
    slow down your|you
    exceed~ .... provisioned throughput
    provisioned throughput .... exceed~
    %server|we|they %be* too|over|heavily? overloaded
    overloaded error|with
    ^ overloaded $
    server|system|request|cpu overload $
    too_many|maximum|max concurrent requests|calls|executions|queries|invocations|jobs|sessions|connections
    concurrency limit %be* %over
    rate limiting $
    rate limiting in_effect|applied|active|kicked_in
    requests|calls %be* too frequent|fast|many
    burst|request|concurrency limit %be* %over
    under|due_to heavy|high|excessive load
    experiencing high|heavy|unusual|increased load|demand|traffic|volume
    %server is|are|was|were saturated|congested|swamped|overwhelmed
    rejected execution
    is|are|was|were|while being purged|restarted|upgraded|re_elected|reelected|elected|rebooted|redeployed|migrated|
        failed_over|rebuilt|recreated|provisioned|drained|reindexed|rebalanced|patched
    used|locked|held|owned|in_use|opened|edited|taken by another|a_different|someone|somebody
    ^ wait .. seconds|minutes|second|minute|hours|and
    all|some shards failed
    shutdown|termination|terminate|stop signal
    exit|exited|terminated|status|returned|failed|ended with? exit? code|status? 143 $
    backpressure
    # contention
    deadlock|deadlocks %be* found|detected|occurred|error|victim|when|while|$
    deadlocked on|with|and|while
    chosen as the deadlock victim
    lock wait? timeout|timeouts|request_time_out|request_timeout
    %fail acquire|acquiring|obtain|obtaining|get|take|grab .... lock|locks|row|lease
    %fail .. lock row|table|record|file|resource
    lock|locks|lease %be* not_available|held_by|not_acquired|taken|conflict|contention
    database|table|row|file|schema|record|index|resource|repository|document|state|object .. is|was|are currently|
        already|temporarily? locked
    index.lock
    could not serialize access
    serialization failure|anomaly|conflict
    restart|retry transaction
    try restarting transaction
    transaction %be* aborted|deadlocked|conflict|retry|rolled_back_due_to
    write|version|update|edit|transaction|lock|locking|concurrency|optimistic conflict|conflicts $
    write|version|update|edit|transaction|lock|concurrency conflict|conflicts on|in|at|for|detected|while|during|between
    conflicting operation|update|request|transaction|write|conditional_operation
    conflicted with another
    due to conflict|conflicts|a_conflict|conflicting
    object|row|document|record|resource|entity|version|item|file|order|booking %be* modified|updated|
        changed by_another|since|concurrently
    concurrent modification|update|write|updates|access
    row was updated or deleted by another
    latest version and try again
    lock|resource|write|row contention
    another|other|conflicting|concurrent .. operation|update|transaction|process|run|deployment|job|instance|request|
        command|task|build|session|writer|user|client|thread|worker|node .. .. %be* in_progress|running|holding|active|
        using|editing
    another|other|conflicting|concurrent %be* in_progress
    rebalanced $
    already? rebalanced and|the_partitions
    cannot execute .. in a? read_only transaction
    operation|rebalance|snapshot|migration|failover|upgrade|restart|reboot|backup|restore|resize|reindex|
        redeployment already? in progress
    rebalance|rebalancing in_progress|$
    # busy, absent for a while, not ready yet
    at this time $
    %fail .... at_this_time|at_the_moment|right_now
    please wait a|and|before|$
    come back later
    wait and retry
    preempted by|$
    due_to|because_of|by preemption
    preemption notice|by
    all .. workers|slots|servers|executors|threads|agents|lines busy|are_busy|occupied
    %server|device|line|disk|file|port|printer|resource|it|bucket or? .. %be* too|very|extremely? busy !with|street|
        day|season|at
    too|sqlite|device|resource|text|service|redis|script busy
    busy %be* redis|try|retry|please|loading|script
    ^ busy $
    %server|redis|dataset .. is|still %be* loading !dock
    is loading the dataset|data|model
    %server|servers|resource %be* not? yet? unavailable|not_available|offline !online
    temporarily|currently|momentarily not_available|unavailable|offline|down|out_of_service|suspended|disabled|blocked|
        inaccessible|unable|overloaded|rejected|deferred|failed
    currently unable to handle|process|serve|complete
    ^ unavailable $
    service|server|gateway|endpoint|site unavailable
    unavailable: ..
    unavailable exception|error
    no healthy|available upstream|backend|backends|server|servers|replica|responders|node
    no responders available
    temporary|transient|intermittent .. failure|failures|error|errors|problem|problems|issue|issues|outage|condition|
        fault|glitch|hiccup|unavailability
    transient !for|student|visitor|guest|ischemic|population
    try|retry|retrying .. again? later|shortly|soon|momentarily|in_a_few|in_a_moment
    try again in|after
    please|can|should|may|must|safely|could retry|be_retried|be_safely_retried
    is|error retryable|retriable
    retryable error|exception|failure
    under|down_for|undergoing|scheduled|in|for|planned scheduled|planned|routine|emergency|system? maintenance mode?
    %server is|was|still in safe_mode|safemode|standby_mode|transition|a_transitional_state
    zookeeper|zk|keeper|etcd|consul|coordinator session|lease|lock %be* expired|lost
    %fail accept .. connection|connections|request|requests|submission|submissions|job|jobs|traffic
    maintenance mode !off|ended|disabled|finished|exited
    %server|it|we|pool .. %be* not? starting|starting_up|shutting_down|restarting|recovering|in_recovery_mode|
        rebooting|initializing|stopping|warming_up
    not yet accepting|ready|prepared|initialized|started|available
    not ready to|yet|$
    not yet? running|up|started|initialized|available|ready|bootstrapped yet
    no .. leader|quorum|master|coordinator !key|of|skills
    is sealed $
    %server is sealed|draining|rebalancing|reloading|rolling_back|cordoned
    due to|by administrator command
    administrator command
    shutdown in progress
    graceful shutdown
    forced connection? closure with_reason
    no|not|lost longer|the|enough|elected|in_sync|new? leader|primary|master|quorum|cluster_manager|replicas !key|plan|
        copy|degree
    leader|master|primary|cluster_manager|coordinator not available|discovered|elected|found
    leader|master election|changed
    quorum %be* lost|not_reached|not_available|not_met
    consistency level ..
    failover|failing_over in_progress|over
    read_only|readonly replica
    clusterdown
    cluster|shard|shards|primary_shard %be* down|initializing|unassigned|not_available|not_active
    tryagain
    masterdown
    on .. end $
    not the correct|right|current coordinator|controller|leader|primary|master|replica|shard
    moved to_another|to_a_different .. broker|node|server|host|shard|partition|leader|controller
    fewer|less .... replicas|nodes|members|brokers|voters .. than
    another|other|concurrent .... .... ongoing|underway|in_flight
    interrupted|aborted|cancelled|canceled at|by|during|due_to|because_of %the? .. shutdown|restart|reboot|maintenance
    generation id is not? valid|illegal|stale|outdated
    on our end|side
    operation cannot be_fulfilled
    concurrently updated|modified|changed|deleted
    circuit|breaker breaker? .. %be* open|tripped|half_open
    open circuit
    circuitbreaker|circuitbreakererror
    internal server|service|system|backend|network_server? error|failure|exception !count
    server|service|backend|origin had an error|internal_error
    encountered an internal|unexpected? error|condition
    bad gateway
    invalid response from .. upstream|backend|origin
    too many 500|502|503|504|429 error responses
    eagain|ebusy|ewouldblock|etxtbsy
    resource temporarily unavailable
    stale file_handle|object_state|element|nfs_file_handle
    server|backend|upstream|remote server? side? error|failure $
    backend fetch? failed|error
    no .. server|servers|backend|backends|upstream|upstreams|worker|workers available
    operation would block
    signal: terminated
    non_blocking socket ..
    request %be* misdirected
    misdirected request
    resource deadlock would_occur
    transaction .. .. %be* aborted !commands
    %server|redis|dataset|it is|are|was still? starting|starting_up|booting|bootstrapping|joining
    query execution %be* interrupted $
    another .. %be* already? running|in_progress|active|scheduled|queued
    queued too long
    someone|somebody else is|has|already already? deploying|editing|running|using|updating|modifying|holding|writing|
        changing|locked|working|applying|taken|claimed|started
    writes|reads|requests|jobs|submissions|uploads|updates|new_jobs|queries|orders|messages|calls|logins|
        writers %be* refused|rejected|paused|blocked|suspended|held|stopped|limited|disabled for_the_moment|for_now|
        temporarily|until|while|during
    promotion|failover|election|upgrade|migration|compaction|rebalancing|resharding|vacuum|reindexing|rollout|
        switchover|deployment|handover under_way|underway|in_progress|ongoing|is_running|is_still_running|
        has_not_finished
    flow control
    publisher|producer|consumer|intake|scheduler|ingestion|processing|scheduling|queue %be* paused|suspended|on_hold|
        halted !by
    temporarily limiting|refusing|rejecting|blocking|pausing|suspending|throttling|closed|stopped|paused|limited|
        restricted
    because_of|owing_to heavy|high|excessive|peak|too_much load|demand|volume
    instance|node|vm|worker|capacity|machine|executor|task|pod .. reclaimed|preempted|interrupted|evicted by|with|for|$
    spot .. reclaimed|interrupted|interruption|terminated|lost
    while|until|because|as the previous|last|other|earlier|first|prior|current .. is|has still|not ..
    warming up
    %server is|are|was|still|being relocating|reallocating|recovering|rebuilding|resizing|scaling|updating|upgrading|
        migrating|syncing|resyncing|failing_over|initialising|resharding|rebooting|provisioning|deploying
    cluster|index|shard|health|state|status %be* red|yellow $
    cluster|index|health state|status|health %be* red|yellow
    waiting for primary|primaries|leader|a_leader|quorum|a_quorum|election|shards|recovery|replicas|the_leader
    experiencing|having|suffering|has|reports|reported %the? .. outage|outages|disruption|disruptions|difficulties|
        hiccup|hiccups|incident|brownout
    outage|disruption|brownout at|on|affecting ..
    while|because|when|as|since the? .. %be* restarted|rebooted|redeployed|draining|drained|upgraded|shut_down|
        restarting
    killed externally
    because|since a? newer|later run|job|build|deployment|one ..
    will|to be requeued|retried|rescheduled|resubmitted
    because_of|owing_to a|an? conflict|deadlock|contention|collision
    leader|primary|master|controller .. not been? elected|chosen|known|assigned
    %server .. is|are|still in recovery|standby|failover|crash_recovery|recovery_mode
    rate of? .. %be* too high|fast
    attached|mounted|bound|leased|reserved to|by|on another
    backing off $
    mutex|semaphore|lock|lease %be* held|taken|busy|contended|occupied|not_free by|since|for|$
    stale version|revision|etag|epoch|leader|snapshot|lock|generation
    version|revision|etag|generation %be* changed|outdated|out_of_date|no_longer_current|moved_on since|by|in|while|
        during|$
    higher priority job|task|run|pod|workload|arrived|request|process
    replica|follower|standby|secondary|mirror %be* catching_up|lagging|too_far_behind|out_of_date
    rate limiter|limit rejected|refused|blocked|denied|hit|kicked_in
    5xx|50x $
    upstream|server|backend|api|gateway 5xx|50x
    %server is|are|was|still coming_up|coming_back|spinning_up|powering_up|being_started
    concurrent change|changes|edit|edits|writer|writers|commit|commits|modifications
    failing over to|from|between|$
    no active|live|healthy|known|reachable|elected|current primary|leader|master|replica|replicas|coordinator|controller
    optimistic locking|lock|concurrency failure|failed|error|exception|violation
    job|workflow|task|run|flow|process|sync|import|export|sweep|deployment|build|backup %be* already running|
        in_progress|active|executing
    available|back again? shortly|soon|tomorrow|later|in_a|in_about
    resume|resumes|resuming|reopen|reopens|reopening again|shortly|soon|tomorrow|in_a|in_about|in_ten|
        in_five
    maintenance window|period|work|works|slot %be* active|open|until|in_effect|in_progress|started|running|not_over|
        under_way
    until maintenance|the_maintenance|the_migration|the_failover|the_upgrade|the_restart
    closed|halted|suspended|paused|stopped|blocked|deferred|postponed|delayed|on_hold|held|unavailable|offline|down|
        locked .. .. .. for|until|till .. minute|minutes|hour|hours|am|pm|seconds|tomorrow|monday|midnight|noon|
        further_notice|morning|later|the_moment
    writes|reads|jobs|job|request|requests|run|runs|execution|delivery|message|messages|mail|processing|task|
        tasks %be* deferred|postponed|requeued|greylisted
    retry|retrying|retried in|after .. second|seconds|minute|minutes|s|ms|sec|min
    flood control|wait
    %be* modified|updated|changed|edited|altered|saved|overwritten by_another|by_someone|by_somebody|meanwhile|
        in_the_meantime|since_it_was|since_you|under_us|behind_our
    calls|requests|queries|messages|operations|emails|writes|reads|transactions|uploads per second|minute|min|hour|sec|
        s .. %be* %over
    previous|last|earlier|prior|other|another .. .. .. still running|active|in_progress|executing|open|underway|at_work
    lag|lags|backlog|replication_delay %be* too high|large|long|big|great
    locked|blocked|reserved while|until
    relocation|resharding|split|merge|sync|synchronization|replication|checkpoint|provisioning|scaling|rollback|import|
        export|indexing|rebuild|refresh|cutover|backfill|creation|deletion|update|bootstrap|repair|rotation|
        cleanup %be* in_progress|ongoing|under_way|underway
    already|still an|a? ongoing|pending|unfinished ..
    stepping|steps down
    snapshot|backup|migration|scan|reindex|crawl|compaction|vacuum|upgrade|instance|reindexing|maintenance|report|
        refresh %be* already running|in_progress|active|under_way|underway
    %be* modified|updated|changed|altered while_we|while_it|while_you|while_they|while_reading|while_being|while_the|
        while_this|between
    briefly|shortly|presently|intermittently unavailable|offline|down|not_available
    currently|still|momentarily|presently|right_now busy !with|street|day
    holds|hold|holding|owns|keeps|keeping|took|has the|a|an|its? lock|lease|mutex|latch|write_lock
    limited|capped|restricted to .. .. .. per second|minute|hour|day|min
    temporarily|currently|momentarily out_of_order|out_of_action|unusable
    %server|warehouse|compute|session is|are|was|still resuming|waking|waking_up|suspended|hibernating|paused
    active|open|used|opened|claimed|checked_out for|in|by another|a_different|someone_else|somebody_else|
        one_other process|session|user|job|client|instance|$
    version|revision|etag|snapshot|copy|row_version %be* stale|superseded
    someone|somebody else saved|changed|edited|updated|modified|booked|committed|wrote
    failover|rebalance|rebalancing|migration|upgrade|switchover|relocation|recovery to|from .. .. in_progress|
        under_way|underway|ongoing
    """,
    4: """
    try again $
    is|are|was|were not_available|unavailable !in|for|on|to|anymore|any_more|today|tonight|tomorrow|this_week|until
    because_of|due_to an? unknown|unexpected error|failure|exception
    is|are loading and|hence|$
    at|over|reached|maximum|peak its? capacity right_now|now|at_the_moment|$
    not .. .. running|started|up $
    operation|request|transaction|job|task|query|call|context|run %be* cancelled|canceled|aborted !by
    worker|executor|agent|runner %be* lost|died|crashed|vanished|disappeared|evicted !his|her|its|communication|
        contact|their|the
    not .. yet $
    """,
    5: """
    %bad ........ lock|locks|locked|leader|election|busy|conflict|conflicts|contention|concurrent|rebalance|retryable|
        quorum|maintenance
    lock|locks|locked|leader|election|busy|conflict|conflicts|contention|concurrent|rebalance|retryable|quorum|
        maintenance ........ %bad
    is|are|still|currently being .. !used|called|passed|tested|treated|ignored|handled|held|made|asked|sued
    is|are still running|active|executing|processing|in_progress|underway|busy
    """,
}
