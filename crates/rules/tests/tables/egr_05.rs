//! A rule names host, ports, methods, paths and query, and means exactly that.

use crate::cases::hold;

/// Sets, and what must become of requests under each.
const TABLE: [(&str, &str); 16] = [
    (
        "[[rule]]\nhost = 'api.x.example'",
        "
        + GET api.x.example/
        + POST api.x.example/a/b?c=d
        + DELETE api.x.example/a
        + PROPFIND api.x.example/a
        + GET API.X.Example/
        + GET api.x.example./
        + GET api.x.example:443/
        + GET api.x.example/chat ws
        - GET api.x.example:80/
        - GET api.x.example:22/
        - GET api.x.example:25/
        - GET api.x.example:444/
        - GET api.x.example:8443/
        - GET api.x.example:1/
        - GET api.x.example:65535/
        - GET x.example/
        - GET b.api.x.example/
        - GET api.x.example.evil.example/
        - GET evilapi.x.example/
        - GET api-x.example/
        - GET 203.0.113.7/
        - CONNECT api.x.example/
        - TRACE api.x.example/
        - get api.x.example/
        - Get api.x.example/
        - G@T api.x.example/
        - GET2 api.x.example/
        ! GET api..x.example/
        ! GET api%2ex.example/
        ! GET 0x7f.1/
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\nports = [80, 8443]",
        "
        + GET api.x.example:80/
        + GET api.x.example:8443/
        - GET api.x.example/
        - GET api.x.example:443/
        - GET api.x.example:8080/
        - GET api.x.example:844/
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\nmethods = 'read-only'",
        "
        + GET api.x.example/
        + HEAD api.x.example/
        + OPTIONS api.x.example/
        + GET api.x.example/any/where?at=all
        - POST api.x.example/
        - PUT api.x.example/
        - PATCH api.x.example/
        - DELETE api.x.example/
        - TRACE api.x.example/
        - CONNECT api.x.example/
        - PROPFIND api.x.example/
        - QUERY api.x.example/
        - LINK api.x.example/
        - MKCOL api.x.example/
        - PURGE api.x.example/
        - get api.x.example/
        - GETS api.x.example/
        - GE api.x.example/
        - GET api.x.example/ ws
        - CONNECT api.x.example/ ws
        - GET api.x.example:80/
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\nmethods = ['POST', 'QUERY']",
        "
        + POST api.x.example/
        + QUERY api.x.example/
        + POST api.x.example/a?b
        - GET api.x.example/
        - HEAD api.x.example/
        - OPTIONS api.x.example/
        - PUT api.x.example/
        - post api.x.example/
        - POSTX api.x.example/
        - POST api.x.example/ ws
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\npaths = ['/v1/items', '/v1/items/', '/v1/items/*', '/v1/files/**', '/v2/*/tags', '/ok']",
        "
        + GET api.x.example/v1/items
        + POST api.x.example/v1/items
        + GET api.x.example/v1/items/
        + GET api.x.example/v1/items/7
        + GET api.x.example/v1/items/7?x=y
        - GET api.x.example/v1/items/7/
        - GET api.x.example/v1/items/7/8
        - GET api.x.example/v1/item
        - GET api.x.example/v1/itemss
        - GET api.x.example/v1/Items
        - GET api.x.example/V1/items
        - GET api.x.example/v1
        - GET api.x.example/v1/
        - GET api.x.example/
        - GET api.x.example/items
        - GET api.x.example/x/v1/items
        - GET api.x.example/v1/files
        + GET api.x.example/v1/files/
        + GET api.x.example/v1/files/a
        + GET api.x.example/v1/files/a/
        + GET api.x.example/v1/files/a/b/c.tar.gz
        + GET api.x.example/v1/files/...
        + GET api.x.example/v1/files/..a
        - GET api.x.example/v1/filesystem/a
        + GET api.x.example/v2/3/tags
        + GET api.x.example/v2/latest/tags
        - GET api.x.example/v2/tags
        - GET api.x.example/v2/3/4/tags
        - GET api.x.example/v2/3/tags/
        - GET api.x.example/v2/3/tag
        - GET api.x.example/v2/3
        + GET api.x.example/ok
        - GET api.x.example/ok/
        - GET api.x.example/ok/x
        - GET api.x.example/okay
        - GET api.x.example/ok:x
        - GET api.x.example/ok ws
        - GET api.x.example:80/ok
        - GET b.x.example/ok
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\npaths = ['/v1/**', '/a%20b/caf%C3%A9', '/star/%2A', '/@me', '/@team/*', '/~ana/*']",
        "
        ! GET api.x.example/v1/../admin
        ! GET api.x.example/v1/..
        ! GET api.x.example/v1/.
        ! GET api.x.example/v1/./x
        ! GET api.x.example/./v1/x
        ! GET api.x.example/v1/%2e%2e/admin
        ! GET api.x.example/v1/%2E%2E/admin
        ! GET api.x.example/v1/.%2e/admin
        ! GET api.x.example/v1/%2e/x
        ! GET api.x.example/v1/a%2eb
        ! GET api.x.example/v1/..;x/admin
        ! GET api.x.example/v1/..;/admin
        ! GET api.x.example/v1/a;b=c
        ! GET api.x.example/v1/a%3bb
        ! GET api.x.example/v1/..%2fadmin
        ! GET api.x.example/v1/..%5cadmin
        ! GET api.x.example/v1/a%2fb
        ! GET api.x.example/v1/a%2Fb
        ! GET api.x.example/v1/a%5Cb
        ! GET api.x.example/v1/a\\b
        ! GET api.x.example//v1/x
        ! GET api.x.example/v1//x
        ! GET api.x.example/v1/x//
        ! GET api.x.example/v1/%00
        ! GET api.x.example/v1/a%00.png
        ! GET api.x.example/v1/%0d%0aX
        ! GET api.x.example/v1/%0a
        ! GET api.x.example/v1/%7f
        ! GET api.x.example/v1/%1b
        ! GET api.x.example/v1/a%
        ! GET api.x.example/v1/a%2
        ! GET api.x.example/v1/a%zz
        ! GET api.x.example/v1/a%u002f
        ! GET api.x.example/v1/%252e%252e/x
        ! GET api.x.example/v1/%252f
        ! GET api.x.example/v1/%25%32%65
        ! GET api.x.example/v1/%c0%ae%c0%ae/x
        ! GET api.x.example/v1/%c0%af
        ! GET api.x.example/v1/%e0%80%af
        ! GET api.x.example/v1/%f0%80%80%af
        ! GET api.x.example/v1/%ed%a0%80
        ! GET api.x.example/v1/%ff
        ! GET api.x.example/v1/%c3
        ! GET api.x.example/v1/%ef%bc%8f
        ! GET api.x.example/v1/%ef%bc%8e%ef%bc%8e/x
        ! GET api.x.example/v1/%e2%88%95x
        ! GET api.x.example/v1/%c2%85
        ! GET api.x.example/v1/é
        ! GET api.x.example/v1/a#b
        ! GET api.x.example/v1/a|b
        ! GET api.x.example/v1/<a>
        ! GET api.x.example/v1/\"a\"
        ! GET api.x.example/v1/[a]
        ! GET api.x.example/v1/{a}
        ! GET api.x.example/v1/a^b
        ! GET api.x.example/v1/%61dmin
        ! GET api.x.example/%761/x
        ! GET api.x.example/v1/%41
        ! GET api.x.example/v1/%31
        + GET api.x.example/v1/100%25
        + GET api.x.example/v1/a%20b
        + GET api.x.example/v1/a+b
        + GET api.x.example/v1/caf%C3%A9
        + GET api.x.example/v1/caf%c3%a9
        + GET api.x.example/v1/models:generate
        + GET api.x.example/v1/(a),b=c&d!e$f'g*
        + GET api.x.example/v1/%3Fx
        + GET api.x.example/v1/%23x
        + GET api.x.example/v1/%5Bslug%5D
        + GET api.x.example/a%20b/caf%c3%a9
        - GET api.x.example/a+b/caf%c3%a9
        - GET api.x.example/a%20b/cafe
        + GET api.x.example/star/*
        + GET api.x.example/star/%2a
        - GET api.x.example/star/x
        + GET api.x.example/@me
        + GET api.x.example/%40me
        + GET api.x.example/~ana/x
        + GET api.x.example/%7Eana/x
        + GET api.x.example/%7eana/x
        - GET api.x.example/~bo/x
        - GET api.x.example/%7ebo/x
        - GET api.x.example/@you
        + GET api.x.example/@team/app
        - GET api.x.example/@team%2fapp
        - GET api.x.example/@team%2Fapp
        - GET api.x.example/@me%2fyou
        - GET api.x.example/v2/x
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\npaths = ['/search']\nquery = { allow = ['q', 'page', 'sort by'] }",
        "
        + GET api.x.example/search
        + GET api.x.example/search?
        + GET api.x.example/search?q=1
        + GET api.x.example/search?q
        + GET api.x.example/search?q=
        + GET api.x.example/search?page=2&q=1
        + GET api.x.example/search?q=1&q=2
        + GET api.x.example/search?q=a=b
        + GET api.x.example/search?q=a%26token%3Db
        + GET api.x.example/search?%71=1
        + GET api.x.example/search?sort+by=x
        + GET api.x.example/search?sort%20by=x
        + GET api.x.example/search?q=1&
        - GET api.x.example/search?token=1
        - GET api.x.example/search?q=1&token=1
        - GET api.x.example/search?q=1;token=1
        - GET api.x.example/search?Q=1
        - GET api.x.example/search?q[]=1
        - GET api.x.example/search?=1
        - GET api.x.example/search?q%00=1
        - GET api.x.example/search?%zz=1
        - GET api.x.example/search?%ff=1
        - GET api.x.example/search?q=1#x
        - GET api.x.example/other?q=1
        - GET api.x.example/search ws
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\nquery = { forbid = ['token', 'callback'] }",
        "
        + GET api.x.example/a
        + GET api.x.example/a?q=1
        + GET api.x.example/a?tokens=1
        + GET api.x.example/a?q=token
        + GET api.x.example/a?my_token=1
        - GET api.x.example/a?token=1
        - GET api.x.example/a?token
        - GET api.x.example/a?q=1&token=2
        - GET api.x.example/a?q=1;token=2
        - GET api.x.example/a?TOKEN=1
        - GET api.x.example/a?t%6fken=1
        - GET api.x.example/a?token[]=1
        - GET api.x.example/a?token%5B%5D=1
        - GET api.x.example/a?+token=1
        - GET api.x.example/a?callback=x
        - GET api.x.example/a?%=1
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\nmethods = ['POST']\npaths = ['/v1/responses']\nwebsocket = true",
        "
        + POST api.x.example/v1/responses
        + GET api.x.example/v1/responses ws
        + CONNECT api.x.example/v1/responses ws
        - GET api.x.example/v1/responses
        - CONNECT api.x.example/v1/responses
        - GET api.x.example/v1/realtime ws
        - TRACE api.x.example/v1/responses ws
        - GET b.x.example/v1/responses ws
        - GET api.x.example:80/v1/responses ws
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\nwebsocket = false",
        "
        + GET api.x.example/
        + POST api.x.example/a
        - GET api.x.example/ ws
        - CONNECT api.x.example/ ws
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\n\
         [[rule]]\nhost = 'api.x.example'\ndeny = true\nmethods = ['DELETE', 'PUT']\n\
         [[rule]]\nhost = '**.x.example'\ndeny = true\npaths = ['/admin/**', '/users/*/keys', '/secret', '/Private/**']",
        "
        + GET api.x.example/
        + POST api.x.example/a
        - DELETE api.x.example/
        - PUT api.x.example/a/b
        - GET api.x.example/admin
        - GET api.x.example/admin/
        - GET api.x.example/admin/x
        - GET api.x.example/Admin/x
        - GET api.x.example/ADMIN
        - POST api.x.example/admin/x/y?z
        + GET api.x.example/administrator
        + GET api.x.example/x/admin
        - GET api.x.example/users/7/keys
        - GET api.x.example/users/7/keys/
        - GET api.x.example/Users/7/Keys
        + GET api.x.example/users/7
        + GET api.x.example/users/7/keys/1
        + GET api.x.example/users/keys
        - GET api.x.example/private/x
        - GET api.x.example/Private
        - GET api.x.example/PRIVATE/X
        - GET api.x.example/secret
        - GET api.x.example/secret/
        - GET api.x.example/SECRET
        - HEAD api.x.example/secret?x
        + GET api.x.example/secrets
        + GET api.x.example/chat ws
        - GET api.x.example/admin/chat ws
        ! GET api.x.example/%61dmin
        ! GET api.x.example//admin
        ! GET api.x.example/x/../admin
        ! GET api.x.example/admin;x
        + GET api.x.example/@admin%2fx
        - GET b.x.example/
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\n[[rule]]\nhost = 'api.x.example'\ndeny = true\nwebsocket = true",
        "
        + GET api.x.example/
        + POST api.x.example/a
        - GET api.x.example/ ws
        - CONNECT api.x.example/a ws
        ",
    ),
    (
        "[[rule]]\nhost = 'api.x.example'\nmethods = ['GET']\npaths = ['/read/**']\n\
         [[rule]]\nhost = 'api.x.example'\nmethods = ['POST']\npaths = ['/write']\n\
         [[rule]]\nhost = '*.x.example'\nmethods = ['HEAD']\n\
         [[rule]]\nhost = 'api.x.example'\nports = [8443]\nmethods = ['PUT']",
        "
        + GET api.x.example/read/a
        - POST api.x.example/read/a
        + POST api.x.example/write
        - GET api.x.example/write
        + HEAD api.x.example/anything
        + HEAD b.x.example/
        - GET b.x.example/read/a
        - HEAD x.example/
        - HEAD a.b.x.example/
        - PUT api.x.example/read/a
        + PUT api.x.example:8443/read/a
        - GET api.x.example:8443/read/a
        - HEAD api.x.example:8443/
        - PUT b.x.example:8443/
        ",
    ),
    (
        "[[rule]]\nhost = '*.one.example'\nmethods = 'read-only'\n\
         [[rule]]\nhost = '**.deep.example'\nports = [443, 8080]\npaths = ['/pub/**']",
        "
        + GET a.one.example/
        + GET A.ONE.EXAMPLE./x
        - POST a.one.example/
        - GET one.example/
        - GET a.b.one.example/
        - GET aone.example/
        - GET one.example.a.one.evil/
        - GET a.one.example:8080/
        + GET a.deep.example/pub/x
        + GET a.b.c.d.e.deep.example/pub/x
        + POST a.deep.example:8080/pub/x
        - GET deep.example/pub/x
        - GET a.deep.example/private
        - GET a.deep.example:80/pub/x
        - GET adeep.example/pub/x
        - GET deep.example.evil.example/pub/x
        ",
    ),
    (
        "[[rule]]\nhost = '203.0.113.7'\nmethods = ['GET']\n[[rule]]\nhost = '2a00:1450::5'\nports = [8443]",
        "
        + GET 203.0.113.7/
        - POST 203.0.113.7/
        - GET 203.0.113.8/
        - GET 203.0.113.7:80/
        - GET [::ffff:203.0.113.7]/
        + GET [2a00:1450::5]:8443/
        + GET [2a00:1450:0::0:5]:8443/
        - GET [2a00:1450::5]/
        - GET [2a00:1450::6]:8443/
        - GET a.203.0.113.7.example/
        ! GET 203.0.113.07/
        ! GET 203.0.28935/
        ! GET 3405803783/
        ! GET [2a00:1450::5%25eth0]:8443/
        ",
    ),
    (
        "",
        "
        - GET api.x.example/
        - GET api.x.example:80/
        - GET 203.0.113.7/
        - GET localhost/
        ! GET 127.1/
        ",
    ),
];

#[test]
fn egr_05_a_rule_means_exactly_what_it_names() {
    let count: usize = TABLE.iter().map(|(set, table)| hold(set, table)).sum();
    assert!(count >= 300, "only {count} cases");
}
