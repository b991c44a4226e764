"""The input is wrong: its form, its values, its size."""

from __future__ import annotations

PHRASES: dict[int, str] = {
    1: """
    # whatever the value is called: "timeout must be positive", "max_connections: value is not a valid integer"
    must|should|has_to|have_to|needs_to|need_to be|have .. positive|negative|greater|less|between|at_least|at_most|
        one_of|an_integer|a_number|a_string|a_boolean|a_list|a_mapping|an_object|numeric|a_float|an_int|a_multiple|
        an_array|a_dict|unique|a_date|non_empty|set|a_url|in_the_range|smaller|larger|shorter|longer|a_valid|valid
    is|are not a|an? valid? integer|int|number|float|boolean|bool|string|list|dict|date|datetime|url|uuid|enumeration|
        array|mapping|email !of
    value|input is not a? valid
    column|columns|function|parameter|variable|reference|symbol|type|identifier|attribute ........ cannot|
        could_not be resolved
    missing|required|unknown|invalid|unexpected parameter|param|argument|field|property|column $
    einval|eisdir|enotdir|enametoolong|e2big|edom|erange|ebadmsg|eilseq|emsgsize|eexist|eloop|enotempty|eafnosupport|
        edestaddrreq|ebadf|eoverflow
    ^ not a directory $
    ^ is a directory $
    directory is? not empty
    too many levels_of_symbolic_links|symbolic_links
    out of domain
    destination address required
    not well formed
    no element found
    no section|option: ..
    no option .. in section
    cannot pickle|unpickle|be_pickled
    too large|big|long|small to_convert|to_fit|for_defined
    ran out of_input
    unknown variant
    more than one_row
    returns|returned more than 1|one row|result|value|record
    more expressions than
    bind message supplies
    exceeds .... maximum ..
    operand should contain
    not in group_by|select_list
    could_not be bound
    must declare ..
    invalid expire time
    would overflow $
    not hash to_the_same_slot
    no matching signature
    cannot resolve .... given|due_to
    name|alias .... already in_use
    ^ frame error
    unexpected frame
    bad config|revision
    eintegrity|ejsonparse|ebadengine|eresolve|einvalidpackagename|ebadplatform|eunsupportedprotocol
    resolution impossible|too_deep
    version solving failed
    requires|require a different
    hash sum mismatch
    which is the? maximum|minimum
    content management|filter|filtering|moderation policy|triggered|system
    safety system
    undeclared crate|module|variable|input|output
    expected .. type ..
    end of_central_directory
    not look like_a|like_an !tls|ssl|http|response
    unexpected eof|end in|of archive|file|string|literal|statement|block|document|comment|expression|template|tag|
        array|object
    unknown frame
    file|archive|payload|upload size is 0|zero
    non quoted field
    delimiter|header|footer|separator|magic_bytes|eof_marker|moov_atom not found
    premature end of data|file|document|tag|image
    element is not_expected
    element .. this element_is_not_expected
    not been decrypted
    broken data stream
    cannot write mode
    corrupt .. data
    could_not find codec_parameters
    file signature
    non utf 8
    surrogates not_allowed
    amount|quantity|price|discount|weight .. exceeds|exceed
    ensure this|that|the field|value|it
    extra inputs are not_permitted
    input should be
    missing environment variable
    while|when|during parsing|decoding|tokenizing yaml|json|xml|csv|toml|html|a|header|config|the_header|the_body
    could_not|cannot find expected
    referenced column|field|table
    fields|columns|values|arguments|items|elements|bytes|rows|parts|digits|characters|dimensions instead of
    extra|unknown|unexpected|additional fields|field|inputs|input|keys|key|properties|property|values|
        value %be* not? permitted|allowed|forbidden|expected
    option|flag|switch|argument .. requires|needs|expects|takes|wants an? argument|value|parameter|integer|number
    """,
    2: """
    validation|validator .. %be* error|errors|failed|failure|failures|fails|exception|unsuccessful|rejected|problem|
        problems
    failed|fails|failing|did_not_pass|does_not_pass|not_pass .. validation
    %fail validate|be_validated
    invalid according to
    ^ invalid $
    ^ invalid .. %field
    ^ invalid ..
    is|was|are|were|an|a|contains|contain|has|have|due_to|because_of|with|found|got|received|encountered|detected|
        error|seems|appears|provided|one|for|returned|following|http|400|using|looks|not|some|by|from|on|and|or|be|
        several|many|specified|supplied|given|had|at invalid
    invalid syntax|json|xml|yaml|csv|input|argument|arguments|parameter|parameters|value|values|data|date|url|uri|
        email|format|type|literal|character|characters|identifier|request|payload|body|header|state|number|index|key|
        name|option|choice|configuration|config|field|byte|continuation|start_byte|escape|regex|regular|pattern|query|
        schema|length|size|path|file|id|expression|operation|token_in|token_at|token_'|token|method|response|message|
        amount|currency|phone|address|utf|base64|iso|signature_for|object|column|reference|version|image|model|
        recipient|enum|timestamp|time|range|usage|credentials_format|selection|entry|use
    malformed|ill_formed|badly_formed|unparsable|unparseable|unprocessable|unserializable !rows
    is|was|are|were|be|not|does_not_look_like|do_not_appear_to_be|does_not_appear_to_be|must_be|should_be|no|without|
        requires|require|expected|enter|provide|need|needs|specify|supply|pass|contain|neither|have a|an|the|
        one? not? a|an|the|any? .. valid|well_formed|correct|acceptable ..
    not|is_not a|an|the|in|of? valid|correct|proper|acceptable|recognized|well_formed
    must|should|shall|has_to|have_to|needs_to be|have|contain|match|start|begin|end|consist|specify|provide|include|
        equal|only|use|exist|satisfy|fall|lie|supply|set|not_be|not_have|not_contain|not_exceed|not_include|not_start|
        not_end|not_match a|an|at|one|of|either|in|less|greater|between|no|non|positive|negative|unique|empty|null|the|
        valid|string|int|integer|number|list|longer|shorter|true|false|set|specified|provided|present|numeric|>|<|>=|
        <=|within|equal|before|after|from|with|defined|same|fewer|more|larger|smaller|higher|lower|more_than|multiple|
        json|enabled|lowercase|uppercase|alphanumeric|iso|formatted|given|type|an_instance|instance|only|or|and|
        characters|letters|digits|by|as|up|even|odd|both|all|each|not
    must be|have|match|contain|not_be|start|include|exist|specify|provide|exceed|not_exceed !root|superuser|owner|
        admin|administrator|logged|authenticated|unlocked|signed|authorized|a_superuser|restarted|the_owner|run_as
    expected|expect|expects|expecting|wanted|requires .... but|got|received|found|saw|given|actual|instead
    expecting value|property
    expected value|values but|to|at|got|$
    expected|expecting a|an|one|type|string|int|integer|number|str|list|object|array|bool|float|dict|end|at_least|
        at_most|format|',|delimiter|exactly|json|key|find|3|2|1|4
    columns,|fields,|values,|arguments,|items,|elements,|rows,|bytes,|dimensions,|parameters,|characters,|digits,|
        parts,|channels, expected|expecting|requires|required|needs
    must|should alternate|precede|belong|differ|correspond|agree|add_up|sum_to|sum_up
    has|have|contains|with|found|is an|a? empty|blank|null .. value|values|field|fields|cell|cells|column|columns|entry
    does_not|do_not|did_not start|begin|end with
    was expecting
    did not find expected
    is not expected here
    %field .. %be* a? required|missing|mandatory|invalid|not_allowed|not_specified|not_set|undefined|unknown|
        duplicated|too_long|too_short|too_large|too_big|too_small|malformed|incorrect|corrupt|corrupted|truncated|
        unsupported|not_supported|not_recognized|unrecognized|empty|blank|out_of_range|ambiguous|not_unique|
        not_numeric|not_a_number !by_law|by_the
    missing|required|mandatory|omitted|absent|lacks|lacking|no_required .. required|mandatory|expected|positional|
        keyword|query|request|path|body|command|form|input? field|fields|parameter|parameters|param|argument|arguments|
        property|properties|value|header|key|column|columns|attribute|option|element|keys|values|input|keyword|
        flag !found_in
    field required
    this|these field|fields is|are|may_not|cannot
    is a required property|field|parameter|argument
    missing schema|closing|opening|delimiter|semicolon|comma|bracket|parenthesis|boundary|quote|colon
    no scheme supplied
    missing from the? request|payload|body|input|data|file
    %fail be? parse|parsed|parsing|decode|decoded|decoding|deserialize|deserialized|unmarshal|interpret|understand|
        convert|converted|converting|coerce|cast|encode|encoded|serialize|serialized|read_as|tokenizing|tokenize|
        compile|marshal
    %fail load|read .. json|yaml|xml|csv|config|manifest
    parse|parser|parsing|syntax|decode|decoding|encoding|deserialization|serialization|conversion|cast|casting|format|
        compilation|compile|lexer|tokenizer|unmarshalling|transform .. error|errors|exception|failure|failed
    json|xml|yaml|csv|toml|html|sql|schema|avro|protobuf|query|graphql|template|regex|data|type|value|input|argument|
        range|unicode|attribute|bounds error|exception !log|rate|free|message|stream|channel|loss|center|transfer
    error|errors|problem in|parsing|decoding|while_parsing|tokenizing|with_your|in_your sql|json|xml|yaml|syntax|query|
        template|data|input|schema|config|configuration|the|a
    codec cannot|could_not decode|encode
    not json? serializable|deserializable|iterable|subscriptable|callable|hashable
    could not convert
    character|token|line|byte .... cannot start|begin|be_decoded|be_encoded|be_parsed|be_used
    cannot unmarshal
    cannot be decoded|encoded|cast|coerced|converted|parsed|null|none|empty|blank|negative|zero|undefined|omitted|
        unset|both|used_with|set_to|greater|less|longer|in_the_past|in_the_future|interpreted|broadcast|
        determined_from|combined|applied
    may|should|could not be null|none|empty|blank|negative|zero|omitted|broadcast
    incorrect|illegal padding|base64
    %be* not well formed
    does_not|do_not|did_not|not match|conform|comply|satisfy|validate|meet|allow|accept the|any|a|its|required|
        expected|to|with|against? .... schema|pattern|regex|format|policy|configuration|definition|criteria|conditions|
        specification|type|types|signature|contract|constraints|requirements|nulls|duplicates|encoding|rule|rules|null|
        length|expected|shape|dimensions
    additional properties
    unexpected token|character|char|end_of|keyword|indent|value|type|field|argument|symbol|string|number|key|parameter|
        property|identifier|format|content|eof_while|non|column|element|attribute|option|literal|input|tag|'|"|<|
        identifier
    was unexpected
    unterminated|unclosed|unbalanced|untokenizable ..
    mismatched tag|bracket|parenthesis|input|type|types|column|columns
    bad|poor request|input|data|parameter|argument|value|format|syntax|header|url|json|query|payload|date|character|
        escape|magic|zip|file|checksum|message|encoding|control_character|number|substitution|interpolation !was
    ^ unsupported ..
    is|was|an|a|error|the unsupported
    unsupported operand|type|format|file|media|value|version|encoding|operation|argument|content|protocol|codec|
        compression|character|parameter|image|language|feature
    %field|media|model|feature|protocol|codec|algorithm|region|scheme .. is|are|was|were? not currently|yet? supported|
        allowed|permitted|acceptable|accepted|recognized|known
    not a supported|recognized|known|valid|permitted|number|string|zip|gzip|tar|pdf|png|jpeg|parquet|database|json|xml
    ^ not supported
    not supported $
    mutually exclusive
    exceeds|exceed|above|below|under %the? maximum|minimum|max|min !capacity|memory|number_of_connections
    count|number|length|size|sum|total|name|names|types|columns|value|values .... does_not|do_not|did_not match|agree|
        add_up|correspond
    cannot query|select|reference|assign|compare|index|iterate|combine|mix|concatenate|subtract|order|group|join|
        coerce|insert|use
    not iterable|subscriptable|callable|hashable|indexable|comparable|numeric|a_mapping
    %fail coerce|normalize|normalise|recognize|recognise|understand|interpret
    only .. is|are accepted|allowed|supported|permitted|valid
    conflicting|contradictory|inconsistent arguments|options|parameters|values|settings|flags
    extra|unexpected|unknown fields|inputs|keys|properties|columns|arguments %be* not? permitted|forbidden|allowed|
        found|given|passed
    extra inputs
    not an|a integer|int|float|boolean|bool|list|dict|mapping|date|datetime|url|uuid|positive|json|object|sequence|
        tuple|set
    empty|blank|no body|payload|input|request_body|data|content is? not_allowed|provided|given|supplied|received
    non numeric|integer|ascii|json|hexadecimal ..
    unhashable|uniterable|unserializable
    below|above|under|over the? minimum|maximum|allowed
    %over %the? maximum|minimum|max|min length|size|value|depth
    not supported between|for|by|in_this|with
    out of range|bounds !of_the_gun|missile
    outside|not_in|not_within of? the|its? valid|allowed|permitted|acceptable|expected|supported? range|bounds|values|
        limits
    %field|header|payload|datetime|tuple|packet .. %be* too long|short|large|small|big|deep|many|few|complex
    too many|few|long|large arguments|values|parameters|columns|fields|positional|items|keys|characters|elements|
        digits|bytes|tables|nested|tokens|terms|clauses|for_type|for_column|to_unpack|rows|entity|variables|
        boolean_clauses
    %over .... length|size|number_of_characters|number_of_tokens|character_limit|file_size|max_size|maximum_size|
        token_limit
    maximum|max|minimum|min .. length|size|number_of_characters|file_size|value !shard|pool|of_connections
    context|prompt|input|token length|window|limit|size
    length|size must|should|exceeds|mismatch|too
    larger|smaller|shorter|longer|greater|less|fewer|bigger|higher than the|or? minimum|maximum|allowed|limit|zero|
        equal_to|0|1|column|type
    violates|violated|violation|violating|violate of? .... constraint|constraints|key|schema|integrity|unique|foreign|
        check|not_null|rule|requirement
    constraint .. %be* failed|fails|failure|violation|violated|error|violations
    integrity constraint|error|violation|check_failed
    duplicate .. key|entry|value|record|id|name|column|object|row|index|primary|document|request|username|email|field|
        identifier|declaration|definition|argument
    not null
    null value|values
    value null|none|nan
    insert|be null|none
    foreign key
    duplicatekey|uniqueviolation|unique_violation|unique_constraint|unique_key
    already exists|exist|taken|registered|defined|declared !for_years
    must exist
    type|types|shape|shapes|schema|size|dimension|dimensions|dtype|version|column|length|hash|digest|checksum|format|
        data_type mismatch|mismatched|incompatible
    type|types|shapes|units .... not match|compatible|aligned|comparable|convertible
    wrong|incorrect|incompatible|inconsistent|mismatched|unknown|unexpected .. type|types|number_of|format|shape|
        dimension|dimensions|length|unit|units|value|kind|encoding|version|syntax|parameter|argument|usage|header|
        schema|size|datetime|date|integer|string|input|content
    operands could not
    unsupported operand
    wrongtype
    numeric|integer|arithmetic|value|number|date|field .. overflow
    extra|trailing|unparsed data|garbage|characters|bytes
    %fail resolve dependency|dependencies|reference|references|conflict|conflicts
    is of type
    missing required
    already been? taken|used|registered|assigned
    size|length exceeds|exceeded|exceeding|is_over|too_large
    shape|shapes|dimension|dimensions|sizes|matrices|types|operands .... cannot|must
    unknown|unrecognized|unrecognised|undefined|undeclared|unresolved field|column|parameter|argument|arguments|option|
        key|property|attribute|command|keyword|format|value|variable|identifier|enum|flag|type|encoding|escape|token|
        character|operator|function|currency|timezone|locale|setting|table|database|label|unit|query|directive|element|
        reference|symbol|tag|event|url_type
    unrecognized|unrecognised
    undefined|undeclared|no such? variable|column
    no such column|table|function:|field|parameter|option|operator
    column|relation|table|function|operator|type|field|schema|variable .. .. does not exist
    ambiguous column|reference|name
    is|be|column ambiguous
    illegal|improper|improperly argument|character|characters|value|state|format|input|escape|formatted|request|byte|
        header|mix|instruction|formed|use
    %field|format %be* incorrect|wrong|not_correct|unacceptable|unknown|unreadable|unparsable
    in|of %the? incorrect|wrong|bad|unknown|unexpected format
    in the format yyyy-mm-dd|yyyy
    not|input in a? correct|valid|expected|right|proper|recognized format
    literal for
    for input string
    corrupt|corrupted|truncated|damaged file|data|archive|image|header|input|record|zip|message|payload|block|stream|
        document|index|pdf|deflate|page|row
    %field|file|archive|image|stream|zip|block|page|database|disk_image|index %be* corrupt|corrupted|truncated|
        malformed|damaged|unreadable
    data truncated
    or binary data would be truncated
    crc|checksum|md5|sha256|digest|hash|sha1 check|error|verification? failed|mismatch|error|does_not_match|incorrect
    cannot identify image
    not acceptable|one_of|among
    method not allowed
    %field|characters|nulls|duplicates|whitespace|blank|null|empty .. not|%be* not? allowed|permitted|accepted !to
    not correctly|properly|well formatted|formed|escaped|encoded|quoted
    positional arguments|argument
    unexpected keyword
    nan|infinity values? not? allowed|encountered|found
    did_you mean
    primary key|unique violation|constraint|violated
    range not satisfiable
    expectation failed
    too large|big|long|deep|many body|header|headers|payload|input|request|cookie
    label|directory|file syntax is incorrect
    domain error
    an|is|got|was|for|of|from|with empty sequence|list|iterable|slice|range|string|dict|array|dataframe|set|iterator|
        series|collection|vocabulary
    embedded null
    circular|cyclic reference|references|dependency|dependencies|import detected|found|in|between|error|from|for|$
    in a cycle
    cycle detected|found|in
    can only concatenate
    got multiple values
    has no len|length
    requires|require|needs|need|expected|expects|takes|accepts at_least|at_most|exactly|a_list|a_tuple|a_str|a_number
    requires|expected .. object $
    not a gzipped|zipped|bzipped|tarred ..
    ended before the end
    expecting .. delimiter|identifier|string|name|comma|colon|separator
    host bits set
    exception|error|failed|failure|problem while? deserializing|serializing|unmarshalling|marshalling|decoding|
        encoding|parsing|validating
    flag provided $
    unsupported type
    not strings|bytes|integers|numbers|dates
    ^ file exists
    not appear to_be a|an|valid|in|of
    precondition failed|required|not_met $
    x not in_list
    data corruption
    incorrect cvc|cvv|zip|number
    only be used with
    not add up
    %field .. %be* already in_use
    is|was|already taken
    may|can|shall not_exceed
    no mapping for
    contract %be* violated|violation|broken
    already been? refunded|paid|voided|captured|settled|redeemed|activated|reimbursed|invoiced $
    cannot|could_not cancel|delete|refund|modify|edit|remove|approve|close|reopen|void|ship|archive|change|update|
        merge|submit .. .. .. .. with|that|because|which|after|once|unless
    %field|order|invoice|ticket|account|job|task|period is|was already closed|cancelled|canceled|shipped|completed|
        approved
    no more|fewer than .. characters|items|elements|entries|values|rows|files|digits|words
    cannot .. more|less|fewer|longer than
    expected|expecting|needed|wanted .. columns|fields|values|rows|items|elements|arguments|bytes|entries|records|
        lines|characters|digits|parts|dimensions|parameters|parts|segments|tokens
    not an|a iso|rfc|ean|isbn|iban|bic|ipv4|ipv6|ip|png|jpeg|jpg|pdf|csv|json|xml|yaml|zip|gzip|parquet|base64|hex|
        hexadecimal|numeric|unix|utf|e
    has|have|contains|contain no line|header|required|valid|matching? rows|row|columns|column|header|headers|fields|
        items|lines|records|values|entries|key|keys|content|body|@|extension|schema|payload|recipient|recipients|sheets
    variable|parameter|field|column|macro|placeholder|setting|option .... is? not defined|known|recognized|recognised|
        declared
    end|finish|stop|until|to before|precedes|earlier_than start|begin|beginning|from
    start|begin|from after|later_than end|finish|until
    unescaped|unmatched|unpaired|misplaced ..
    stray|dangling quote|bracket|comma|reference|character|tag|brace|end_tag|start_tag|newline|semicolon
    %field .. already present|recorded|stored|loaded|imported|included|processed
    contains|contain|has|have|includes|found nulls|null|nan|nans|empty_values|blanks|missing_values|null_values|
        nan_values|duplicate_rows|duplicate_keys
    exceed|exceeds scale|precision|the_scale|the_precision|decimal_places
    out of set|enum|the_set|the_enum|domain|vocabulary
    expectations|expectation %be* failed|violated
    quality check|checks|gate|rule|rules|test|tests %be* failed|violated|not_met|not_passed
    unknown|unrecognized|undefined|unexpected|illegal|unsupported status|state|kind|category|level|mode|country|unit|
        locale|event_type|job_type|file_type $
    nested too
    have|has|with|are_of different|differing|inconsistent|unequal|mismatched|mixed columns|lengths|length|shapes|types|
        schemas|dtypes|sizes|units|number_of|numbers_of
    negative|empty|null|blank|zero|duplicate|trailing|leading|nested .. %be* not? allowed|permitted|supported|accepted
    no %field given|provided|specified|supplied|passed|set $
    column|columns|field|parameter|attribute|placeholder .. .. not found
    singular matrix
    matrix %be* singular|not_positive_definite|not_invertible|ill_conditioned
    end|finish|stop|until date|time|day|timestamp? before|precedes|earlier_than %the? start|begin|beginning|from
    enum|enumeration .. has no
    schema violation|violations
    too many decimals|decimal_places
    starts|start|begins|begin after .. ends|end|finishes|closes
    ends|end|finishes|expires before .. starts|start|begins|begin
    contains|contain|has|forms|creates|with a|cycles|loop? cycle|cycles|self_loop
    debit|debits|credit|credits|totals|sums|books|ledger|amounts|figures|accounts .... not balance|balanced|add_up|
        match|agree|reconcile|tally
    expected|expecting .. .. .. at|near|in|on line|position|column|offset|index|char|row
    zero length|byte|bytes|size payload|file|body|input|message|content|upload|document|image|string|array|vector|key|
        name
    may_not|must_not|cannot|should_not contain|exceed|include|start|begin|end|overlap|repeat ..
    forbidden|disallowed|prohibited|reserved|illegal character|characters|symbol|symbols|keyword|keywords|word
    """,
    3: """
    does_not|do_not|did_not support
    incompatible with
    with the same name|id|key|email|title
    already has|have a|an
    larger|longer|bigger|smaller|shorter|greater|less|more|fewer than the? configured|permitted|minimum|maximum|allowed
    given|available|among|known input? columns|fields|options|choices
    is|are required $
    expected .... to be|have|equal|match|contain
    is|are|was|were|lies|be negative|zero|blank|in_the_future|in_the_past|not_unique|not_numeric|not_positive|unparsable
    date|time|start|begin|from|lower is|lies|was|be .. after|before|above|later_than|earlier_than !retry
    conflicting|incompatible|inconsistent|contradictory dependencies|requirements|versions|constraints|types
    is|are|was|were|be larger|longer|shorter|smaller|greater|bigger|newer|older|higher|lower|fewer|more|less than
    ^ unknown .. policy|strategy|mode|kind|level|category|status|type|setting|flag|codec|scheme|dialect|unit|code|
        currency|country|language|locale|encoding
    %field .... does_not|do_not match
    uri|url|field|value|scope|name|id mismatch
    unknown|invalid|unsupported|wrong|bad|unexpected|incorrect .. format
    format error|exception|mismatch|specifier
    does not match format
    unprocessable
    %fail process image|picture|pdf|audio|video|document|attachment
    field|parameter|argument|value|column|currency|email|url|uuid|amount|quantity|price|timestamp|latitude|longitude|
        country|locale|timezone|sku|percentage|unit .. is|are not a|an
    is|are mandatory $
    date|day|timestamp .... does_not|do_not exist
    %field %be* too early|late|old|low|high|few|many|new $
    out of order|sequence $
    inconsistent|ambiguous|contradictory|implausible .. %field
    %field .. differ|differs|disagree|disagrees $
    is|are not unique|numeric|positive|recognized|supported|sorted|ordered|finite|square|monotonic|aligned
    negative amount|quantity|price|value|number|count|length|size|index|duration|total|stock|dimension
    contains|contain text|letters|spaces|special|control|illegal|unexpected ..
    expects|accepts|takes|wants|allows only|an|exactly|integers|numbers|strings|text|values|digits|booleans|dates
    only accepts|takes|allows|supports ..
    no_more_than|at_most|not_more_than|up_to|only|a_maximum_of|fewer_than|maximum .. .. is|are|may|can accepted|
        allowed|permitted|supported|possible|be_given|be_sent|be_used
    polygon|geometry|linestring|ring|multipolygon|shapefile .... not_closed|self_intersects|self_intersecting|
        self_intersection|self_intersections|degenerate|not_simple|unclosed
    is|are|be|was|were|appears|appear|occurs|occur|listed|given|present|defined|specified|declared|mentioned|
        entered twice|more_than_once|several_times|multiple_times|two_times
    contains|contain|has|have|includes the|a|an|non|illegal letter|letters|digit|digits|character|characters|symbol|
        symbols|blank|blanks|newline|newlines|tab|tabs|emoji
    %field .. exceeds|exceed|exceeded|is_over|over|is_larger_than|is_bigger_than|is_longer_than .. kb|kib|mb|mib|bytes|
        characters|chars|words|lines|pages|pixels|tokens|rows|columns
    ambiguous|nonexistent|non_existent time|date|timestamp|hour|datetime|local_time
    does_not|do_not|did_not|will_not accept|take|understand ..
    sum|total|sums|product of .... is_not|are_not|not|must|should
    has|have|had|with|without no? scheme|suffix|prefix|unit|currency|title|primary_key|delimiter|separator|timezone|
        namespace_prefix
    dates|date|range|ranges|interval|intervals|period|periods|booking|bookings|slot|slots|shift|shifts|times|rows|
        windows|reservations|segments|polygons .. %be* overlap|overlaps|overlapping
    have|has|share|shares|carry|use|uses the same .. id|ids|key|name|number|position|index|value|email|code|title|
        primary_key|identifier
    index|schema|model|layer|column|field|header|parser|reader|format|table|constructor|function|encoder expects|
        wants ..
    missing|absent for|in|at|on the? line|row|item|record|entry|column|position|order|product|customer|document|
        element|node|section
    not allowed|permitted to be|contain|exceed|have|start|end|equal|include|overlap
    is|are|was|were|be not absolute|relative|zero|encoded|normalized|normalised|increasing|decreasing|contiguous|
        consecutive|symmetric|invertible|divisible|alphanumeric|alphabetic|ascii|printable|uppercase|lowercase|even|
        odd|prime|integral|convex|consistent|plausible|whole|parsable|well_formed
    date|time|day|timestamp .. before|after|earlier_than|later_than|precedes .. .. date|time|start|end|birth|creation
    cannot|must_not|may_not|should_not be its|their|the own|same ..
    refers|reference|references|pointing|points|refer to an? unknown|missing|nonexistent|non_existent|undefined|
        deleted ..
    value|values|index|count|length|number .. exceeds|exceed|is_above|is_below|is_over|is_under ..
    """,
    4: """
    larger|longer|bigger|smaller|shorter than .. ..
    unsupported
    duplicate|duplicated ..
    out of order ..
    protocol|version mismatch
    does_not|do_not|did_not match
    is|are|was|were|be|msg|message|name|path|url|comment too long|short|large|big|deep|wide
    mismatch|mismatches|mismatched !repair
    contradict|contradicts|contradicting|contradictory
    ^ empty|blank .. %field|line|cell|address
    """,
    5: """
    invalid|malformed|illegal|incorrect|incomplete .. %field
    is|are|was|were incomplete
    past|beyond|outside|behind the? .. valid|allowed|end|range|limits|bounds
    %bad|not|must ........ argument|arguments|parameter|parameters|field|fields|value|values|type|types|format|column|
        columns|schema|syntax|input|environment_variable|json|xml|yaml|csv|payload|header|headers|option|options|
        encoding|date
    argument|arguments|parameter|parameters|field|fields|value|values|type|types|format|column|columns|schema|syntax|
        input|environment_variable|json|xml|yaml|csv|payload|header|headers|option|options|encoding|date|enum|regex|
        checksum|precision|datetime|timestamp|delimiter|placeholder|spreadsheet|worksheet|dtype|
        dataframe ........ %bad|not|must
    !something|anything|what|things|all has|have|had|with|is|are|contains|uses|was|were|got a|an|the? wrong|
        incorrect !with|gateway|node|host|server|leader
    ^ wrong|incorrect !with|gateway|node|host|server|leader|$
    bad expression|cron|pattern|template|name|row|line|record|frame|rows|lines|records|version|regexp|operand|geometry|
        coordinates|barcode|iban|isbn|locale|timezone|encoding|separator|delimiter|sequence|index|file|image|date|
        dates|number|data
    negative weight|height|width|balance|age|stock|distance|rate|offset|timestamp|total|number|score|mileage|reading|
        capacity|limit|interval|delay !acknowledgement
    is|are|lies|lie|was|were|falls|fall outside|out_of_the_range !office|business|working|opening|the_building|support
    line .. column|col|char|character|position ..
    """,
}
