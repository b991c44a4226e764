"""The wire: connections, names, timeouts, TLS."""

from __future__ import annotations

PHRASES: dict[int, str] = {
    1: """
    remote error: tls
    temporary failure in name resolution
    econnrefused|econnreset|econnaborted|etimedout|ehostunreach|ehostdown|enetunreach|enetdown|enetreset|epipe|
        enotconn|eshutdown|eaddrnotavail|eaddrinuse|eproto|enolink|ecomm|eremoteio|enonet|etime
    rpc server is? unavailable
    only one usage of_each_socket
    upstream sent ..
    incomplete message $
    [ssl:|[ssl] ..
    zero|no addresses $
    zero|no addresses for|from|returned|were_returned|found
    protocol error $
    depth zero self
    pkix ..
    login timeout expired
    transport level error
    marked|declared dead|down $
    %server .... marked dead|down
    maximum statement execution_time
    canceled|cancelled while waiting
    host|name|dns|address resolution failure|failed|error
    temporary failure resolving
    unable_to|cannot|could_not|failed_to negotiate
    host not found in|for|:
    no protocols available
    no .. cipher|ciphers|cipher_suites|ciphersuites
    dh key too_small
    legacy renegotiation
    fatal alert
    in tls hello|handshake
    ocsp ..
    eservfail
    took|taken|taking|ran longer than
    premature end of content|the_content|message_body|body|response
    unable_to|cannot|could_not|failed_to connect: ..
    exit code|status 124 $
    non zero exit code|status 124 $
    headers|header|response|reply|answer|acknowledgement|ack not received|arrived|seen
    temporary|transient dns ..
    """,
    2: """
    connection|connections|conn attempt|attempts|request|to_it|link? .... %be* refused|reset|aborted|lost|broken|
        interrupted|severed|rejected|failed|failure|dead|unreachable|disconnected|hung_up|forcibly|unexpectedly|
        not_established|prematurely|abruptly !handler|page|policy
    connection|connections|conn attempt? %be* timed_out|timeout|timeouts|time_out|time-out|error|errors|exception|died|
        shut_down|shutdown|problem|problems|issue|issues|not_open|unavailable|not_available|down !handler|page|count|log
    connection|session|stream|transport|channel|socket|websocket %be* closed|terminated|ended|dropped|cut|
        gone by_remote|by_peer|by_the|by_server|by_broker|by_foreign|unexpectedly|before|without|while|during|
        prematurely|mid|early|abnormally|with|from
    connection|stream|socket|transport|channel|websocket %be* closed|terminated|dropped $
    closed|dropped|terminated|reset|aborted|lost|refused|killed|broke the|its|our? connection|stream|socket|session|
        transport
    lost|dropped|broken|no|bad|stale|closed|dead|failed|reset|refused|unstable|slow connection to|with|from|during|
        while|detected|error|$
    lost|losing|loss connection|contact|connectivity|of_connectivity|of_connection
    not connected $
    not connected to
    %fail open|make|create|keep|maintain|set_up|establish|establishing|initiate|re-establish %the? .. connection|
        session|socket|tunnel|link|channel
    %fail be|in|occurred_while|to? connect|connecting|reconnect|reconnecting|reach|reaching|contact|contacting|
        connected|reached|contacted|ping !with_people|audience|out|consensus|agreement|goal
    connect to? .... failed|error|refused|timed_out|aborted
    connect: .. ..
    connect call failed
    failed|unable|error|cannot|could_not to? connect
    connection|connectivity attempts|attempt|check|test failed
    no|poor|limited|intermittent|unstable internet|network? connectivity|connection|access $
    connectivity issue|issues|problem|problems|lost|error|failure
    refused to connect|the_connection|connection|our_connection
    actively refused
    ^ refused $
    reset by %the? peer|remote|server|client
    by peer
    peer reset
    connection reset|loss
    stream reset|removed|terminated
    reset before ..
    broken pipe
    pipe is|has_been? broken|closed|ended|being_closed
    unexpected|premature|got|early|hit eof|end_of_file !marker
    eof occurred|detected
    eof while|when|from|during reading|from|handshake|waiting
    socket|read|recv|connection|protocol error: eof
    server|client|peer|remote|host|socket|broker|session|stream|websocket|device|consumer|unexpectedly|was|got|been|
        abruptly|database|node|we %be* disconnected|hung_up|went_away|gone_away !by
    disconnected without|unexpectedly|from|while|during|before|by_remote
    unexpected disconnect|disconnection
    disconnect error|detected|during
    peer|remote|server|client|upstream|host|broker|other_side|remote_end|remote_host|far_end|proxy end|side|host|
        server? unexpectedly|prematurely|abruptly|has? %closed unexpectedly|connection|the|without|while|before|its|$
    closed|dropped|hung_up unexpectedly|prematurely|abnormally
    hang up
    hung up unexpectedly
    transfer closed
    outstanding read data
    socket|websocket|web_socket|network|tcp|udp|grpc|rpc|http|http/2|amqp|ftp|ssh|smtp|imap|ldap|sftp|jdbc|odbc io|
        stream|connection|protocol|transport|session|channel? %be* error|errors|failure|failed|exception|timeout|
        timed_out|hang|hangup|unreachable|lost|broken|reset|down|disconnected|not_open|banner
    opening|open|reading|writing|read|write .. socket
    %fail be? resolve|resolved|resolving|look_up|lookup|translate|find_address|find_host .... host|hostname|name|
        address|domain|dns|proxy|url|ip|server|endpoint|api
    %fail be? resolve|resolved|resolving $
    host|hostname|name|domain|address .. could_not|cannot be? resolve|resolved|found
    name or service not known
    name resolution
    nodename nor servname
    no such host|hostname|domain
    unknown .. server host
    unknown host|hostname|domain
    unknownhost|unknownhostexception|getaddrinfo|nxdomain|servfail|enotfound
    eai again
    dns .. lookup|resolution|query|resolver|server|probe|name? %be* failed|failure|failures|error|errors|timed_out|
        timeout|not_found|unreachable|not_responding|problem|issue|finished
    no address associated
    host|hostname|server not found $
    server not found: 3
    network|host|destination|server|node|address|endpoint|service|peer|site|remote|port|target|broker|website|gateway|
        database|it|proxy|url|cluster|api|instance .. %be* unreachable|not_reachable|down|inaccessible !to|for|the|
        payment
    no route to
    network path|name|share|location .. not_found|not_available|could_not_be_found|no_longer_available
    %be* unreachable $
    is|was|are unreachable
    network|networking|internet|wifi|lan|ethernet|link|vpn|tunnel|proxy|uplink|carrier|interface connection|
        connectivity|tunnel|adapter|layer? %be* error|errors|failure|failures|failed|down|timeout|timed_out|
        unavailable|lost|interrupted|disconnected|changed|partition|partitioned|outage|dropped|glitch|hiccup|offline|
        unstable|unreachable|problem|problems|issue|issues|not_available !for|team|payment|count
    network request failed
    due|because to|of %the? .. network|connectivity|connection|internet error|issue|issues|problem|problems|failure|
        outage|loss
    net::err ..
    err connection|network|internet|name|ssl|cert|timed|address|empty|socket|tunnel|proxy ..
    vpn|tunnel|uplink .. .. %be* lost|down|dropped|closed|failed
    invalid|bad|broken connection $
    communications|communication|link link? failure|error|lost|problem|exception
    econnrefused|econnreset|econnaborted|etimedout|ehostunreach|enetunreach|epipe|esockettimedout|ehostdown|enetdown|
        econnection|eaddrinuse|enotconn
    timed out !to_perfection
    took|taking too long
    timedout
    deadline %be* exceeded|expired|missed|elapsed !for
    exceed~ %the? .. deadline|timeout
    context|client|request deadline exceeded
    ssl|tls|mtls|https|starttls|gnutls|openssl .. error|errors|failure|failed|handshake|alert|exception|routines|
        verify|negotiation|eof|recv
    ssl|tls connection .. closed|error|failed|lost|unexpectedly
    certificate|cert|certificates verify|verification|validation|verify_failed|check|error|chain failed|error|failure|
        problem?
    certificate|cert .... %be* expired|not_trusted|untrusted|not_valid|invalid|revoked|not_yet_valid|rejected|
        signed_by_unknown|unknown|mismatch|self_signed|problem !until
    verify|validate|trust|verifying|validating %the? .. certificate|certificates|cert|issuer
    invalid|expired|bad|untrusted|unknown|wrong|self_signed ssl|tls|server|peer|client|signed? certificate|cert|ca
    self signed certificate
    no alternative certificate
    unsupported|unknown|wrong|old tls|ssl .. version|protocol|cipher
    %fail return .. response
    no .. set? members|member|replica match|available|reachable
    certificate|cert .... matches|match target|host|hostname|name
    local issuer certificate
    x509: ..
    handshake %be* failed|failure|error|timeout|timed_out|alert|not_completed|terminated|exception|status|aborted
    failed|bad|incomplete|unexpected|during|complete|perform|finish|before .. handshake
    path building failed
    hostname .. mismatch|does_not_match|verification_failed
    hostname .... does not match
    does_not|do_not|did_not match .... altnames|certificate|certificate's|cert|san
    due_to|because_of|by|hit|over .. time limit|timelimit
    exit|exited|terminated|status|returned|failed|ended with? exit? code|status? 124 $
    wrong version number
    before secure tls ..
    %fail tunnel|connect to|through %the? proxy
    packet loss
    100% packet loss
    ping|heartbeat|keepalive|keep_alive|health_check|probe|liveness_probe timeout|failed|timed_out|missed|lost|failure|
        expired|error
    ping|heartbeat|keepalive to|from .. %be* lost|missed|missing|failed|timed_out
    connection|session|socket|tunnel|channel could_not|cannot be opened|established|made|created|maintained|set_up
    missed|lost|no|missing heartbeat|heartbeats|keepalive
    gone away
    connection|transport|channel|session is closing|closing_down
    server misbehaving
    lookup .. on ~|127|10|192
    %out .. brokers|endpoints|servers|hosts|replicas
    no .. servers|brokers|hosts|nodes|endpoints|peers found|known|left
    brokers|servers|nodes|hosts|endpoints|peers|replicas|services|links %be* down|unreachable|not_reachable|offline|dead
    certificate|cert|peer|server cannot|could_not be authenticated|verified|validated|trusted
    goaway received
    lookup failed|timed_out|error
    latency|rtt %be* too high
    port is? closed|unreachable|blocked
    no data received
    empty|no|bad response|reply from|received|$
    dial tcp|udp|unix
    read tcp
    i/o timeout|error
    curl 5|6|7|18|28|35|52|55|56|92
    curl: (5)|(6)|(7)|(18)|(28)|(35)|(52)|(55)|(56)|(92)
    rpc failed
    failed to fetch $
    fetch|load failed $
    early eof
    empty reply|response from
    no|all .. hosts|host|nodes|endpoints|servers|brokers|broker|replicas %be* available|reachable|responding|down|
        failed|unreachable|alive
    nobrokersavailable
    incomplete read|chunked
    incompleteread
    response|content|stream|payload ended prematurely|is_not_completed|incomplete
    peer closed
    recv|send|read|write|receive failure|failed|error: ..
    recv|send failure
    reading response|socket|stream failed|error
    could_not read from remote
    %fail receive|read|send|get|fetch .. response|reply|answer|headers|from_socket|from_remote
    unexpected end of stream|response|input_stream
    no|without|missing response|reply|answer|acknowledgement %be* received|from|within|in|after|for_request|sent|$
    %fail respond|reply|answer|responding !to_the_survey|correctly
    not|stopped respond|responding|replying|answering
    remote end closed
    address already in use
    port is? already? in_use|allocated
    cannot assign requested address
    %fail bind
    timer expired
    not on the network
    link has_been severed
    software caused connection_abort
    network name .. no_longer_available|deleted|not_available
    unreachable host|network
    connection %be* aborted by
    ^ eof $
    premature close
    self signed cert
    alert protocol|handshake|certificate|unknown|internal|bad|decode|decrypt ..
    record layer failure
    keepalive watchdog
    fill whole buffer
    lost|losing|lose %the? .. link|line|contact|route|uplink to|with
    %fail open %the? .. websocket|web_socket|stream|pipe|link|channel to|for|$
    download|upload|transfer|sync|copy|export|fetch|replication|stream|streaming|handshake|transmission|call|
        exchange .. %be* interrupted|cut_off|cut_short|broken_off|stalled|severed
    gave|giving|given up waiting|on_the_connection
    gave|giving|given up after .. seconds|s|attempts|tries|retries|minutes
    waited|waiting .. seconds|s|sec|ms for|without
    %server|device|sensor|broker|executor|driver|client|peer|link|feed|consumer|producer %be* went|gone silent|quiet|
        dark|offline|away
    dropped off the|our
    ceased|quit answering|responding|replying|sending
    cut us off
    did_not hear from|back_from
    not heard from|back_from
    no word|news|sign|signs|signal from|of_life
    %fail find|locate|see %the? .. host|hostname|nameserver|route
    port .... %be* closed|unreachable|blocked|filtered|refused
    expired|missed|blown deadline while|for|$
    connection|stream|session|request|call|upload|download|handshake %be* hung|stalled|stuck|frozen
    no carrier|internet|connectivity $
    no carrier|internet|connectivity on|at|from
    host|hostname|domain|nodename|server .. not known
    transport failure|error|problem
    tunnel|connection|session|stream|link|socket|channel|uplink|vpn .... collapsed|broke|broke_off|torn_down|went_down|
        fell_over|fell_apart|vanished|cut_off|ended_early|gave_way
    %fail talk|speak|communicate|get_through to|with
    no route $
    feed|link|downlink|uplink|signal|stream|line|call|video|audio|camera|modem|picture|transmission %be* faded|cut_out|
        dropped_out|went_dead|gone_dead|broke_up|faded_out|died|dropped|interrupted !by
    not|never|without|no send|sent|sending|report|reported|receive|received|deliver|delivered? a|any|its? heartbeat|
        heartbeats|keepalive|keepalives|ping|pong
    refuse|refuses|refusing|refused|rejects|rejecting|rejected|drops|dropping|declines|declined|declining all|new|our|
        any|incoming|further|tcp? connection|connections
    dropped|disconnected|hung_up_on|cut_off us|me
    no|without|lost internet|network|web access|connection|connectivity|route
    deadline .. .. %be* exceeded|expired|passed !for
    stopped|ceased|quit|stops sending|transmitting|streaming|reporting|responding|polling|broadcasting
    %fail|no|not|never|nothing|without .... within|in .. ms|s|sec|seconds|second|minutes|minute|milliseconds
    no|not|never|nothing .... before the|a|its|any? timeout|deadline|time_limit
    never|nobody|nothing|no_one answered|replied|responded|came_back|called_back|reacted
    %server|partner|site|device|station|subscriber|number %be* not reached|contacted|answering|responding
    session|link|line|transfer|circuit|connection|channel %be* dropped|detached|idle|inactive by|for|after|too_long|$
    no_longer reachable|responding|answering|connected|replying|pingable !to
    end_of_file|eof before|while|when|during|reached
    closed|terminated|dropped|reset|cut|ended by the? server|peer|remote|host|client|broker|device|partner|proxy|
        router|gateway|backend|upstream
    not|never close|closed|shut_down|end .. cleanly|properly|gracefully
    lost|losing|lose %the? websocket|socket|session|stream|channel|tunnel|feed|heartbeat|peer|server|broker|node|
        database to|with|from|after|during|while|$
    without a|any response|reply|answer|acknowledgement
    """,
    3: """
    execution|running|run|processing|wall|response|elapsed time of? .... exceeded|exceeds|expired
    none of .... nodes|hosts|servers|brokers|endpoints|replicas %be* available|reachable|responding|up|alive
    lost|losing|loss_of|no communication with|to|between
    http response|request|traffic to|on https client|server|port
    terminating|closing|dropping|resetting %the? connection|session|channel|stream
    %server|connection|connect|read|write|request|response|socket|operation|query|statement|network|idle|session|
        command|execution|task|job|call|http|transaction|handshake|receive|send|login|lookup|navigation|script|lambda|
        process|step|build|heartbeat|rpc|tcp|dns|proxy|client|pool|acquire|visibility|workflow|poll|consumer|fetch|
        search|i/o|io|internal|hard|soft|total|global|download|upload|by|due_to|hit|caused|gateway|got|with|soft|wait|
        polling|scrape|sync timeout|timeouts|time_out error|errors|exception? %be* $
    %server|connection|connect|read|write|request|response|socket|operation|query|statement|network|session|command|
        execution|task|job|call|http|transaction|handshake|receive|login|lookup|process|step|build|rpc|client|pool|
        wait timeout|timeouts|time_out error|expired|exceeded|elapsed|occurred|reached|while|waiting|when|during|after|
        connecting|reading|trying|contacting|talking|in|on|from|for|before|was_reached|has_occurred
    timeout|timeouts|time_out .... %be* exceeded|expired|elapsed|reached|hit_the|occurred|triggered !for
    timeout|time_out waiting|while|connecting|reading|awaiting|trying|talking|contacting|during|sending|writing|
        fetching|opening|communicating|error|exception
    timeout|time_out when|after|on|in read|connect|connecting|reading|waiting|calling|send|wait|call|trying|a|
        connection|1|2|3|5|10|15|20|30|45|60|90|120|180|300|600|1000|5000|10000|30000|60000|endpoint|request|query
    error|fatal|exception|failed|failure|aborted|reason|cause|caused_by|err|warning|because of|with|after|due_to|a|the|
        to? timeout|time_out
    ^ timeout|timedout|time_out $
    %over %the? .. timeout|time_out|time_limit|timelimit
    time limit %be* %over
    %over %the? .. execution|run|wait|processing time|duration
    not|never respond|reply|answer|complete|finish|completed|finished in_time|within|in_a_timely|after|before
    max|maximum retries exceeded with_url
    did not return|arrive|come_back in_time|within
    not|never finish|finished|complete|completed|return|end|ended|respond|answer|come_back in|within|after .. seconds|
        minutes|s|ms|hours|h|sec
    aborted|cancelled|canceled|killed|stopped|terminated|abandoned after .. s|seconds|minutes|ms|hours|sec|min
    unreachable from|via|over|on|at|after|since|again !code
    httpconnection|httpsconnection pool
    read|write|recv|send error while|during|from|on|in
    """,
    4: """
    named pipe
    not reachable by|from|via|through|over|at|$
    could_not|cannot|failed_to|unable_to resolve !action|column|columns|task|step|conflict|conflicts|dependency|
        dependencies|reference|references|symbol|module|import|issue|type|variable
    ^ .. timeout|time_out|timeouts $
    ^ .. connection|network|socket|ssl|tls|dns|http error|errors|problem|problems|issue|issues|failure
    """,
    5: """
    %bad ........ connection|connections|network|socket|dns|tls|ssl|handshake|listener|hostname|proxy|protocol|
        transport|certificate|tunnel|connecting|reachable|internet|remote_host|packet|packets|bandwidth
    connection|connections|network|socket|dns|tls|ssl|handshake|listener|hostname|proxy|certificate|tunnel|connecting|
        reachable|internet|remote_host|packet|packets|bandwidth ........ %bad
    """,
}
