"""Somebody is not allowed to, or did not prove who they are."""

from __future__ import annotations

PHRASES: dict[int, str] = {
    1: """
    eacces|eperm|erofs|ekeyrejected|ekeyexpired|enokey|ekeyrevoked
    required key not_available
    key %be* rejected by
    key %be* expired|revoked $
    exit status|code 126 $
    not able to access %the? database|resource|table|schema
    sso session ........ expired
    has not been used in_project
    billing must be_enabled
    billing account ........ disabled
    violates pod_security
    authorization violation
    protected branch
    ownership in repository
    use a personal access_token
    signatures could_not be_verified
    known hosts
    agent refused operation
    unprotected private key
    interaction|login|consent required $
    token|assertion .. %be* not_active|used_too_early|not_yet_active|used_before|issued_in_the_future|not_signed|
        missing_the|expired
    no .. matching kid|key_id
    saml|kerberos|krb5|oauth|oidc|jwks|jwt|ldap|gssapi .... %be* expired|not_signed|unsigned|skew|mismatch|bad_signature
    audience|issuer mismatch|does_not_match|not_allowed|invalid
    invalid|wrong|unexpected audience|issuer
    clock skew
    not found in_kerberos_database
    acceptsecuritycontext|accept_security_context error
    otp|one_time_password|one_time_code|passcode|verification_code|mfa_code|2fa_code|totp|otp_code|
        pin .. %be* incorrect|invalid|wrong|expired|required|missing|not_valid|does_not_match|rejected
    invalid|incorrect|wrong|expired|missing|bad otp|one_time_password|one_time_code|passcode|verification_code|
        mfa_code|totp|2fa_code
    plan|subscription|license|licence|edition does_not include|cover|allow|support|permit access|this|that|api|feature
    license|licence|subscription does_not|do_not include|cover|entitle ..
    not assigned to a|any|the role for|in|on|$
    not granted .. .. consent|permission|access|rights
    hmac .. failed|mismatch|invalid|does_not_match|not_match
    need|needs|must auth|authenticate
    must|please|need_to|have_to verify your? email|account|identity|phone
    remounting .. read_only
    ^ ticket expired $
    signed link|url|request .... expired|no_longer_valid
    non zero exit code|status 126 $
    log|sign|login in? again
    two_factor|second_factor|authenticator|auth|access code %be* wrong|incorrect|invalid|expired|rejected|missing
    """,
    2: """
    permission|permissions|privilege|privileges %be* denied|refused|rejected|error|missing|insufficient|not_granted|
        violation|required|needed|denied_error
    permission|access to .... %be* denied|refused|forbidden|blocked|disallowed
    insufficient|missing|lacks|lack|lacking|without|required|inadequate|not_have|not_enough|requires|require|need|
        needs|has_no|have_no|necessary|elevated|sufficient the|any|enough|sufficient|required|necessary|
        proper? .... permission|permissions|privilege|privileges !slip|slips
    access|entry|login|logon ....... denied|forbidden|refused|disallowed|prohibited|restricted|revoked|blocked
    no .. permission|permissions|privilege|privileges to|for|on|$
    accessdenied
    access from|to|by|for .... %be* not allowed|permitted|granted|authorized
    user|account|role|bot|client|caller|principal .. may_not|must_not read|write|access|modify|delete|list|execute|
        create|update|push|publish
    not in %the? sudoers
    consent %be* withdrawn|revoked|denied|missing|expired|not_given
    denied access
    not have .. access|authorization|authority|rights|clearance
    no|without|lacks|lacking read|write|admin|root|any? access rights|to
    correct access rights
    insufficient|missing|inadequate|not_enough|without|invalid|required|lacks .... scope|scopes|rights|roles|authority|
        clearance|access !of
    missing|insufficient|lack|lacks|lacking|requires|without the|a|any? .. role|roles !model|models
    access|entry|caller|member|origin %be* not allowed|permitted|granted|authorized|whitelisted|allowlisted
    too many authentication|login|password|auth failures|attempts
    authentication|login|auth failures|attempts_failed !per
    access .... disabled|turned_off|switched_off|suspended
    %be* disabled on_this_system|on_this_computer|by_policy|by_your|by_the_administrator|by_an_administrator
    must|need|needs|has|have to? be .. admin|administrator|owner|root|superuser|logged_in|signed_in|member|
        authenticated|authorized|verified|activated|approved !of_the_month
    cannot|may_not|can_only create|list|get|delete|update|patch|watch resource|pods|secrets|namespaces|deployments|
        services
    not subscribed|enrolled|entitled|a_member_of|whitelisted|allowlisted
    restricted|limited to admins|administrators|members|owners|staff
    admin|admins|administrators|owner|staff|members only !talk|parking
    consent|login|sign_in|mfa|2fa required
    have|has no access
    not accessible by|to|for
    unauthorized|unauthorised access|request|client|user|operation|to|for|error|action|ip|call|domain|token|api|use|
        exception|url|response|scope|-|$
    is|was|are|be|401|http|status|returned|you unauthorized
    not been|properly|currently? authorized|authorised|authenticated|authed
    not authorised|authorized
    unauthenticated|unauthorizedoperation
    authorization|authorisation|authentication|auth|authenticate .... %be* failed|failure|error|required|denied|
        rejected|unsuccessful|invalid|missing|expired|incorrect|exception|not_provided|needed|challenge
    %fail to? authenticate|reauthenticate|authenticating|authorize|log_in|login|sign_in|logon
    authentication|auth credentials|fail|token
    missing|invalid|bad|no|failed|wrong authentication|authorization|auth|authn
    requires|need|needs|require|must authentication|authenticate|be_authenticated|be_logged_in|be_signed_in
    noauth|wrongpass|noperm
    signature .... does_not|did_not conform|match|verify|validate
    access_key|access_key_id|api_key|token|certificate|credential|credentials .... does_not|did_not exist
    must|should contain|include|provide|supply|carry ........ access_key|api_key|token|credential|credentials|
        authorization|access_key_id
    needs|requires|without|no|missing a|an|active|valid? active? subscription|license|licence
    token ........ %be* expired|revoked
    perform|requires|complete|using sso|mfa|kerberos|saml authentication|login
    without any|a|the|valid|proper? password|credentials|authentication|authorization|token|login
    could_not|cannot|unable_to|failed_to read|get|prompt_for username|password
    possible|detected|suspected csrf|xsrf|forgery
    need to be authenticated|logged_in|signed_in
    ^ forbidden $
    forbidden by|for|to|error|access|request|operation|from|exception|resource|url|because|:
    is|was|are|be|403|status|http|strictly|been forbidden !to_say
    operation|action|request|it|user|client|host|ip|access|you|account|key|role|command|caller|
        service_account .. not permitted|allowed_to|allowed_for|allowed_from
    not|never permitted !to_say
    not allowed to access|connect|perform|read|write|delete|create|use|execute|do|view|modify|push|run|publish|assume|
        call|list|get|update|see
    user|host|client|ip|origin %be* not allowed
    login|logon|sign_in|log_in|log_on .... %be* failed|failure|incorrect|required|denied|invalid|rejected|error|
        unsuccessful|refused
    failed|invalid|bad|incorrect login|logon|sign_in
    not logged in
    please|must|to|need_to|have_to|has_to log|sign in again|first|to|before|$
    password|passphrase .... %be* %state
    invalid|incorrect|wrong|bad|expired|missing|no username|user_name|user|login|email or|and|/? password
    invalid|incorrect|wrong|bad|expired|missing|no password|passphrase|passcode|pin !policy
    password authentication|verification|check failed
    a password is required
    using password: yes|no
    no password supplied
    username .. password not accepted
    invalid|bad|wrong|incorrect|missing|expired|no|insufficient|revoked|unknown|malformed|unrecognized .. %secret !at|
        in_json|until
    %secret .. provided|supplied|header? %be* %state !until|in_json
    incorrect .. %secret provided
    %fail locate|find|load|verify|validate|obtain|refresh|get|determine|automatically_determine .. credential|
        credentials
    no valid credentials
    invalid|expired|revoked|missing .. token|jwt|session|cookie|certificate_authority !at|in_json|near|in_expression|'|
        "|<|{|in_response
    token|jwt|session|cookie included_in_the_request|used|provided|supplied|has? %be* expired|revoked|not_valid|
        no_longer_valid|invalid|blacklisted|rejected|missing|required|inactive|unauthorized
    request|url|link|presigned_url|session|login|signature .. %be* expired
    not on|in %the? .. allow|allowed|access|white|guest list
    allowlist|whitelist|allow_list|white_list %be* denied|rejected|blocked|does_not
    has|have|had|with no role|roles|rights|entitlement|entitlements|grant|grants
    bad token $
    csrf|xsrf token|verification|cookie|check? failed|missing|invalid|mismatch
    grant %be* expired|revoked|invalid
    invalid grant|client|client_secret|client_token_id
    host|ssh key verification failed
    key id you provided
    request signature we calculated
    signature %be* does_not_match|mismatch|verification_failed|validation_failed|check_failed|invalid|expired|
        not_yet_current
    publickey
    must|only be|the|run_as|an|table? superuser|owner|root|admin|administrator|administrators|superusers|admins|
        owners !of_the_month
    must be .. owner|superuser of
    requires|require|need|needs .. superuser|root|admin|administrator|elevated privileges|rights|access?
    are you root
    read only file_system|filesystem|database|mode|transaction|user|access|volume|share
    readonly database|filesystem
    write a read? only|readonly database
    !changed|created|updated|edited|set|added|approved|signed by|violates|against|per .. policy|acl|rbac|firewall|
        administrator
    blocked|denied|rejected|refused|disallowed|prohibited by .. policy|acl|firewall|administrator|rule|rules|security|
        organization|admin
    policy|policies .. denied|denies|forbids|forbidden|prohibits|blocks|blocked|disallows|violation|rejected !cache
    no? pg hba
    no pg hba
    row level security
    explicit deny
    denied for user|role
    command|publish|push|pull|request|login|query|authorization|operation %be* denied $
    ^ denied $
    denied: ..
    denied to ..
    account|user|ip|ip_address|client|key|api_key|profile|subscription|address|tenant|
        organization .. %be* permanently? blocked|banned|suspended|disabled|locked|locked_out|deactivated|blacklisted|
        not_activated
    mfa|2fa|two_factor|sso|multi_factor code|authentication|token? required|failed|needed|enforced
    invalid|expired|no|missing valid? license|licence
    license|licence|subscription|trial|account key|period? %be* expired|invalid|missing|not_valid|revoked|inactive
    payment|billing %be* required|disabled|not_enabled|inactive
    eacces|eperm|erofs
    requires|require|needs elevation|elevated_privileges
    trust relationship .... failed|broken
    %be* write protected
    trust relationship ........ failed|broken
    user|account|member %be* inactive
    role|policy|policies|permissions|acl|acls|rule|firewall|settings does_not|do_not allow|permit|grant
    2|two step verification|authentication|login %be* required|needed|failed|missing
    not in %the? group|role|team|organization|organisation|project|tenant|workspace
    link|url|invitation|invite|voucher|key|badge .. %be* no_longer_valid|expired
    not in %the? allowlist|whitelist
    enable|set_up|configure|activate|enrol|enroll mfa|2fa|two_factor|two_step|multi_factor
    token|api_key|access_key|credential|credentials .. %be* deleted|disabled|deactivated|withdrawn|blocked
    access to .... %be* required|needed|necessary
    only %the? .. owner|owners|admin|admins|administrator|administrators|members|maintainers|maintainer|editors|
        managers|staff|superusers can|may|is_allowed|are_allowed
    not been? approved|verified|vetted|whitelisted|cleared by|for your|the|this|an organization|organisation|admin|
        administrator|owner|publisher|use
    requires|needs|require|need|awaiting|pending %the? .. approval|sign_off|consent by|from a|an|the|your manager|
        admin|administrator|owner|reviewer|supervisor|maintainer|administrators|owners|reviewers
    does_not|do_not|did_not grant|include|carry|contain|cover|confer %the? .. scope|scopes|permission|permissions|role|
        access|right|rights|claim|claims|privilege|entitlement
    accept|agree the|our|to terms
    accept|agree to_the|to_our terms
    volume|share|disk|file|folder|directory|mount|table|index|account|repository|session|bucket|database %be* mounted|
        marked|opened|set|is|are read_only|readonly
    %be* mounted|marked|opened read_only|readonly
    blocked by the? user|recipient|owner|customer
    role|user|account|bot|client|caller|principal|key may_not|must_not pass|assume|invoke|see|view|run|call|use|open|
        join|approve|submit|trigger|manage
    not a|an|the superuser|admin|administrator|owner|maintainer|collaborator $
    not a|an|the superuser|admin|administrator|maintainer|collaborator of|in|on|for
    unknown|unrecognized principal|identity|caller|login
    scope|role|claim|entitlement .. %be* required|needed|missing|not_granted !by
    not writable|writeable|readable|executable
    identity|signature|user|account|caller|client could_not|cannot be verified|confirmed|authenticated
    kicked|banned|expelled|ejected|barred|removed from|out_of the? .. group|channel|server|room|chat|team|organization|
        organisation|workspace|project
    requires|require|needs|need|only_available_on|available_only_on|only_available_in|available_only_in|reserved_for|
        limited_to|restricted_to the|a|an? higher|premium|paid|enterprise|pro|elevated|another|business .. access|tier|
        plan|plans|edition|subscription|level|clearance|licence|license|membership|account|accounts|customers|members
    read only|scoped token|key|api_key|credential|credentials|account|user|role|grant
    not have|hold|possess|own|carry the|a|an|any|this|that|enough|sufficient? .... role|roles|scope|scopes|right|
        rights|permission|permissions|clearance|entitlement|entitlements|privilege|privileges !model|models
    account|user|card|profile %be* frozen|restricted|barred|blacklisted|under_review
    token|jwt|assertion|cookie|ticket .... unknown|untrusted|wrong|unexpected|foreign|other issuer|audience|signer|key|
        realm
    requires|needs|require|need|awaiting|awaits|lacks|without the|an|a|prior? approval|sign_off|countersignature|
        authorization|authorisation of|by_a|by_an|by_another|by_two|from|$
    host|server key .. %be* not_trusted|not_verified|changed|unknown|mismatch
    client certificate|cert .. %be* required|missing|not_presented|not_provided|not_sent
    not present|send|provide a|any|its|the? client? certificate
    ^ certificate required
    restricted|limited|reserved|confined|only_open|only_available to|for .. .. users|members|staff|employees|admins|
        customers|partners|subscribers|accounts|roles|personnel|tenants|developers|managers
    need|needs|require|requires|required|want|wants|lacks|lack .... rights|clearance|authority
    owned by root
    requires|needs|require|need|without mfa|2fa|two_factor|sso|multi_factor|a_login|login|sign_in|a_second_factor
    must|should|need_to|have_to have .. rights|role|permission|permissions|privileges|clearance|authority|scope
    approval|sign_off|countersignature|clearance %be* required|needed|missing|pending|withheld|not_given
    may|can|must only be used|called|invoked|accessed|opened|run|read|edited|changed from|by|within|inside|in
    unknown to the? .. authorization|authentication|identity|auth|login|directory|idp|kdc
    shared|attached|exported|granted|configured read_only|readonly
    caller|user|account|actor|requester|approver|role|you is|are? not in|part_of|a_member_of|among|
        one_of %the? .. group|groups|roles|team|members|owners|approvers|admins
    """,
    3: """
    revoked !on
    principal|caller|account|token|role|user|identity|key lacks|lack
    only .... members|users|admins|administrators|owners|managers|staff|officers|people|roles|accounts .... may|can|
        are_allowed|is_allowed
    """,
    4: """
    forbidden $
    ^ authenticate $
    ^ permission|unauthorized|unauthorised|forbidden|access error? $
    unauthorized|unauthorised $
    not allowed|permitted to !be|exceed|contain|have|start|end|equal|include|overlap|worry
    may_not|is_not_entitled_to|is_not_empowered_to|has_no_right_to|have_no_right_to|
        has_no_business_to release|approve|sign|sign_off|cancel|edit|change|export|transfer|withdraw|refund|reopen|
        open|close|book|order|prescribe|delete|view|see|read|write|modify|access|publish|share|download|upload|assign|
        reassign|grant|invite|add|remove|create|update|override|unlock|perform|execute|run|use|submit|authorise|
        authorize|issue|discharge|dispense|ship|post|merge|push|deploy|trigger|manage|administer|drop|alter|truncate|
        insert|select|restart !of|its|their
    """,
    5: """
    %bad ........ permission|permissions|authorization|authentication|credential|credentials|login|privilege|
        privileges|protected|sign_in|log_in|two_factor|access|forbidden|unauthorized|password|scope|scopes|mfa|2fa|sso|
        oauth|jwt|iam|rbac|acl|entitlement|entitlements|api_key|api_token|access_token|refresh_token|consent|login|
        logins
    permission|permissions|authorization|authentication|credential|credentials|login|privilege|privileges|protected|
        sign_in|log_in|two_factor|access|forbidden|unauthorized|password|scope|scopes|mfa|2fa|sso|oauth|jwt|iam|rbac|
        acl|entitlement|entitlements|api_key|api_token|access_token|refresh_token|consent|login|logins ........ %bad
    guest|guests|users|staff|members|bots|employees|viewers|editors|students|contractors|subscribers|readers|role|
        customers|visitors|interns|tenants cannot|may_not|must_not|can_only|should_not ..
    """,
}
