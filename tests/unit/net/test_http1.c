/* The HTTP/1.1 parser: the same events however the bytes are cut, and every smuggling shape
 * refused. */
#include "net/http/http1.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_http_message_limits limits = {
    .head_bytes = 1024, .header_count = 10, .body_bytes = 4096};

/* Feeds `bytes` cut at random (step 1: byte by byte; 0: whole) and writes what happens to `log`. */
static int play(const char *bytes, size_t count, size_t step, struct tt_prng *prng, bool in_place,
                struct tt_text *log) {
    struct tt_http1 parser;
    tt_http1_init(&parser, &limits);
    size_t at = 0;
    int status = 0;
    bool again = false;
    while ((at < count || again) && !status) {
        size_t piece = step == 1 ? 1 : step ? 1 + tt_prng_below(prng, step) : count;
        piece = piece < count - at ? piece : count - at;
        const char *from = bytes + at;
        size_t missing;
        char *space = in_place ? tt_http1_body_space(&parser, &missing) : NULL;
        if (space) {
            piece = piece < missing ? piece : missing;
            memcpy(space, from, piece);
            from = space;
        }
        size_t used;
        const char *sentence;
        again = false;
        switch (tt_http1_feed(&parser, from, piece, &used)) {
        case TT_HTTP1_MORE: assert_int_equal(used, piece); break;
        case TT_HTTP1_HEAD:
            tt_text_printf(log, "%s %s keep=%d continue=%d json=%d\n",
                           parser.request->message.method, parser.request->message.target,
                           parser.request->keep_alive, parser.request->message.expects_continue,
                           (int)parser.request->message.json_bytes);
            again = true;
            break;
        case TT_HTTP1_MESSAGE:
            tt_text_printf(log, "body %zu:", parser.request->message.body.length);
            tt_text_append(log, parser.request->message.body.bytes,
                           parser.request->message.body.length);
            tt_text_puts(log, "\n");
            tt_http1_reset(&parser);
            break;
        case TT_HTTP1_BAD:
            status = tt_http1_problem(&parser, &sentence);
            assert_true(strlen(sentence) > 10);
            break;
        case TT_HTTP1_HTTP2: fail_msg("the parser was not to take HTTP/2"); break;
        }
        at += used;
    }
    tt_http1_fini(&parser);
    return status;
}

static const char good[] = "\r\nGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n"
                           "POST /x?y=1 HTTP/1.1\r\nhost: a\r\nContent-Length: 5 \r\n"
                           "Expect: 100-Continue\r\nInference-Header-Content-Length: 3\r\n\r\nhello"
                           "POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                           "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n"
                           "GET /old HTTP/1.0\r\n\r\n"
                           "POST /e HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nUpgrade: h2c\r\n"
                           "Connection: close, Upgrade\r\n\r\n";
static const char expected[] = "GET /v2 keep=1 continue=0 json=-1\nbody 0:\n"
                               "POST /x?y=1 keep=1 continue=1 json=3\nbody 5:hello\n"
                               "POST /c keep=1 continue=0 json=-1\nbody 13:abc0123456789\n"
                               "GET /old keep=0 continue=0 json=-1\nbody 0:\n"
                               "POST /e keep=0 continue=0 json=-1\nbody 0:\n";

static void test_same_events_in_any_split(void **state) {
    (void)state;
    uint64_t seed = test_seed(20240607);
    struct tt_prng prng;
    tt_prng_init(&prng, seed, 0);
    for (int round = 0; round < 300; round++) {
        struct tt_text log;
        tt_text_init(&log);
        size_t step = round < 4 ? (size_t)round / 2 : 2 + tt_prng_below(&prng, 40);
        int status = play(good, sizeof(good) - 1, step, &prng, round & 1, &log);
        assert_int_equal(status, 0);
        assert_string_equal(tt_text_string(&log), expected);
        tt_text_fini(&log);
    }
}

#define HEAD "POST / HTTP/1.1\r\nHost: a\r\n"

static void test_refused(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *bytes;
    } cases[] = {
        /* Where does it end? */
        {400, HEAD "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"},
        {400, HEAD "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
        {400, HEAD "Content-Length: 3, 3\r\n\r\nabc"},
        {400, HEAD "Content-Length: +3\r\n\r\nabc"},
        {400, HEAD "Content-Length: -3\r\n\r\nabc"},
        {400, HEAD "Content-Length: 0x3\r\n\r\nabc"},
        {400, HEAD "Content-Length:\r\n\r\nabc"},
        {400, HEAD "Content-Length: 99999999999999999999\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: identity\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: \x0b"
                   "chunked\r\n\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"},
        {400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n"},
        {400, HEAD "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc"},
        /* Lines and names */
        {400, "GET / HTTP/1.1\nHost: a\n\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\nX: 1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\n X: 1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {505, "GET /\r\n\r\n"},
        {400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS, by mistake"},
        {400, "hello, server\r\n\r\n"},
        {400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"},
        /* What is not spoken here */
        {400, "DESCRIBE rtsp://a/b RTSP/1.0\r\nHost: a\r\n\r\n"},
        {400, "OPTIONS * RTSP/1.0\r\nHost: a\r\n\r\n"},
        {400, "GET / RTSP/1.0\r\nHost: a\r\n\r\n"},
        {400, "SOURCE / ICE/1.0\r\nHost: a\r\n\r\n"},
        {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
        {405, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"},
        {417, HEAD "Content-Length: 1\r\nExpect: miracles\r\n\r\n"},
        {413, HEAD "Content-Length: 4097\r\n\r\n"},
        {413, HEAD "Transfer-Encoding: chunked\r\n\r\n2000\r\n"},
        {431,
         "GET / HTTP/1.1\r\nHost: a\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\nA:1\r\n"
         "A:1\r\nA:1\r\n\r\n"},
    };
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(5), 0);
    for (size_t i = 0; i < TT_COUNT(cases); i++)
        for (size_t step = 0; step < 4; step++) {
            struct tt_text log;
            tt_text_init(&log);
            char bytes[8192];
            size_t count = strlen(cases[i].bytes);
            memcpy(bytes, cases[i].bytes, count);
            if (strstr(cases[i].bytes, "\r\n2000\r\n")) { /* the body that it announces */
                memset(bytes + count, 'x', 5000);
                count += 5000;
            }
            int status = play(bytes, count, step, &prng, false, &log);
            if (status != cases[i].status)
                print_error("case %zu, step %zu: %s\nlog: %s\n", i, step, cases[i].bytes,
                            tt_text_string(&log));
            assert_int_equal(status, cases[i].status);
            assert_null(strstr(tt_text_string(&log), "body"));
            tt_text_fini(&log);
        }
}

/* Whatever has no end of its own is cut off by a limit. */
static void test_endless(void **state) {
    (void)state;
    static const struct {
        int status;
        const char *start, *then;
    } cases[] = {
        {414, "GET /", "aaaaaaaaaaaaaaaa"},
        {431, "GET / HTTP/1.1\r\nHost: a\r\nX:", "                "},
        {431, "GET / HTTP/1.1\r\nHost: a\r\nX: 1", "1111111111111111"},
        {431, "GET / HTTP/1.1\r\nHost: a\r\n", "xxxxxxxxxxxxxxxx"},
        {431, HEAD "Transfer-Encoding: chunked\r\n\r\n1", ";a=bbbbbbbbbbbbb"},
        {431, HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n", "Trailer: 234567\r\n"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_text bytes, log;
        tt_text_init(&bytes);
        tt_text_init(&log);
        tt_text_puts(&bytes, cases[i].start);
        for (int k = 0; k < 200; k++)
            tt_text_puts(&bytes, cases[i].then);
        struct tt_prng prng;
        tt_prng_init(&prng, test_seed(1), 0);
        int status = play(bytes.bytes, bytes.length, 16, &prng, false, &log);
        if (i == 0) /* the head's limit is met before the target's */
            assert_true(status == 414 || status == 431);
        else
            assert_int_equal(status, cases[i].status);
        tt_text_fini(&bytes);
        tt_text_fini(&log);
    }
}

/* A chunk that is over the limit is refused when it is announced. */
static void test_large_chunk_is_not_waited_for(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, 5, 0);
    const char bytes[] = HEAD "Transfer-Encoding: chunked\r\n\r\n1001\r\n";
    for (size_t step = 0; step < 4; step++) {
        struct tt_text log;
        tt_text_init(&log);
        assert_int_equal(play(bytes, sizeof(bytes) - 1, step, &prng, false, &log), 413);
        tt_text_fini(&log);
    }
}

static size_t limit_of(void *context, const char *target) {
    ++*(int *)context;
    return strcmp(target, "/large") == 0 ? 4096 : 10;
}

/* The limit by target is asked for large bodies only, and the budget counts what has come. */
static void test_limit_by_target_and_budget(void **state) {
    (void)state;
    int asked = 0;
    struct tt_quota quota;
    struct tt_body_budget budget;
    tt_quota_init(&quota, 30);
    tt_body_budget_init(&budget, &quota, NULL);
    const struct tt_http_message_limits by_target = {.head_bytes = 1024,
                                                     .header_count = 10,
                                                     .body_bytes = 4096,
                                                     .body_limit = limit_of,
                                                     .context = &asked,
                                                     .small_body_bytes = 10,
                                                     .budget = &budget};
    static const struct {
        const char *bytes;
        enum tt_http1_event event; /* after the head */
        int asked, status;
    } cases[] = {
        {"POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", TT_HTTP1_MORE, 0, 0},
        {"POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", TT_HTTP1_BAD, 1, 413},
        {"POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 4096\r\n\r\n", TT_HTTP1_MORE, 2, 0},
        {"POST /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n", TT_HTTP1_BAD,
         3, 413},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_http1 parser;
        size_t used, count = strlen(cases[i].bytes);
        tt_http1_init(&parser, &by_target);
        enum tt_http1_event event = tt_http1_feed(&parser, cases[i].bytes, count, &used);
        if (event == TT_HTTP1_HEAD)
            event = tt_http1_feed(&parser, cases[i].bytes + used, count - used, &used);
        assert_int_equal(event, cases[i].event);
        assert_int_equal(asked, cases[i].asked);
        assert_int_equal(budget.share.used, 0); /* promised, not come */
        const char *sentence = "";
        assert_int_equal(tt_http1_problem(&parser, &sentence), cases[i].status);
        if (i == 2) {
            const char body[31] = {0};
            assert_int_equal(tt_http1_feed(&parser, body, 30, &used), TT_HTTP1_MORE);
            assert_int_equal(budget.share.used, 30);
            assert_int_equal(tt_http1_feed(&parser, body, 1, &used), TT_HTTP1_BAD);
            assert_int_equal(tt_http1_problem(&parser, &sentence), 503);
        }
        tt_http1_fini(&parser);
        assert_int_equal(budget.share.used, 0);
    }
}

/* Of Host and Origin only what is there once and fits is kept, and only if it is asked for. */
static void test_host_and_origin(void **state) {
    (void)state;
    static const char fits[] =
        "1234567890123456789012345678901234567890123456789012345678901234567890123456789";
    struct {
        const char *headers, *host, *origin;
        int32_t origins;
    } cases[] = {
        {"Host: a:1\r\n", "a:1", "", 0},
        {"Host: a:1 \t\r\norigin:  http://b\r\n", "a:1", "http://b", 1},
        {"Host: a\r\nOrigin: null\r\nOrigin: http://a\r\n", "a", "", 2},
        {"Origin:\r\nHost: a\r\n", "a", "", 1},
    };
    struct tt_http_message_limits some = {.head_bytes = 4096, .header_count = 10, .body_bytes = 10};
    for (size_t i = 0; i < 2 * TT_COUNT(cases) + 4; i++) {
        some.keeps_origin = i % 2 == 0;
        char request[512];
        const char *host = i / 2 < TT_COUNT(cases) ? cases[i / 2].host : NULL;
        size_t extra = i / 2 - TT_COUNT(cases); /* how many bytes too many */
        if (host)
            snprintf(request, sizeof(request), "GET / HTTP/1.1\r\n%s\r\n", cases[i / 2].headers);
        else
            snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: %s%s\r\n\r\n", fits,
                     extra ? "x" : "");
        struct tt_http1 parser;
        size_t used;
        tt_http1_init(&parser, &some);
        assert_int_equal(tt_http1_feed(&parser, request, strlen(request), &used), TT_HTTP1_HEAD);
        if (!host)
            host = extra ? "" : fits;
        assert_string_equal(parser.request->message.host, some.keeps_origin ? host : "");
        if (i / 2 < TT_COUNT(cases) && some.keeps_origin) {
            assert_string_equal(parser.request->message.origin, cases[i / 2].origin);
            assert_int_equal(parser.request->message.origin_count, cases[i / 2].origins);
        }
        tt_http1_fini(&parser);
    }
}

/* The client's preface of HTTP/2 is consumed exactly, however it is cut; with any other byte
 * it is refused. */
static void test_preface_of_http2(void **state) {
    (void)state;
    static const char bytes[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nabc";
    enum { PREFACE = sizeof(bytes) - 1 - 3 };
    for (size_t step = 1; step < sizeof(bytes); step++) {
        for (size_t wrong = 0; wrong <= PREFACE; wrong++) { /* PREFACE: none is */
            struct tt_http1 parser;
            char sent[sizeof(bytes)];
            memcpy(sent, bytes, sizeof(bytes));
            sent[wrong] = wrong < PREFACE ? '~' : sent[wrong];
            tt_http1_init(&parser, &limits);
            parser.takes_http2 = true;
            size_t at = 0;
            enum tt_http1_event event = TT_HTTP1_MORE;
            while (event == TT_HTTP1_MORE && at < PREFACE + 3) {
                size_t left = PREFACE + 3 - at, used;
                event = tt_http1_feed(&parser, sent + at, left < step ? left : step, &used);
                at += used;
            }
            if (wrong == PREFACE) {
                assert_int_equal(event, TT_HTTP1_HTTP2);
                assert_int_equal(at, PREFACE);
            } else {
                assert_int_equal(event, TT_HTTP1_BAD);
            }
            tt_http1_fini(&parser);
        }
    }
}

static void test_answer_head(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    struct tt_http_head answer = {.status = 405,
                                  .content_type = "application/json",
                                  .content_bytes = 7,
                                  .json_bytes = -1,
                                  .allow = "GET"};
    tt_http1_write_head(&answer, &text);
    assert_string_equal(tt_text_string(&text),
                        "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json\r\n"
                        "Allow: GET\r\nContent-Length: 7\r\nConnection: close\r\n\r\n");
    tt_text_fini(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_events_in_any_split),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_endless),
        cmocka_unit_test(test_large_chunk_is_not_waited_for),
        cmocka_unit_test(test_limit_by_target_and_budget),
        cmocka_unit_test(test_host_and_origin),
        cmocka_unit_test(test_preface_of_http2),
        cmocka_unit_test(test_answer_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
