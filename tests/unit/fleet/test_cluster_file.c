/* The description of a cluster: what is read, and what is refused with its line. */
#include "base/instant.h"
#include "fleet/cluster_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char good[] = "# two of each\n"
                           "scheduler s1 127.0.0.1:7101\n"
                           "\n"
                           "frontend  f1 [::1]:7201 # the first\n"
                           "backend   b1 host-b:7301 grants=4 pool=gpu-a devices=3\n"
                           "backend b2 127.0.0.1:7302\r\n"
                           "backend b3 127.0.0.1:7303 pool=gpu-a\n"
                           "silence-ms 50\n"
                           "plan-moves 7\n"
                           "plan-every-s 60\n"
                           "control-us 200";

static void a_file_is_read(void **state) {
    (void)state;
    struct tt_cluster_file file;
    struct tt_error why;
    assert_int_equal(tt_cluster_file_parse("f", good, &file, &why), TT_OK);
    assert_int_equal(file.count, 5);
    assert_int_equal(file.places[0].role, TT_ROLE_SCHEDULER);
    assert_string_equal(file.places[1].host, "::1");
    assert_int_equal(file.places[1].tcp_port, 7201);
    assert_int_equal(file.places[2].devices, 3);
    assert_string_equal(file.places[2].host, "host-b");
    assert_int_equal(file.places[3].devices, 1);
    assert_int_equal(file.places[2].grants, 4);
    assert_int_equal(file.places[3].grants, 1);
    assert_int_equal(file.places[0].grants, 0);
    assert_int_equal(tt_cluster_file_grants(&file), 4);
    assert_string_equal(file.places[2].pool, "gpu-a");
    assert_string_equal(file.places[3].pool, "default");
    assert_int_equal(file.places[2].pool_number, 0);
    assert_int_equal(file.places[3].pool_number, 1);
    assert_int_equal(file.places[4].pool_number, 0);
    assert_int_equal(file.times.plan_moves, 7);
    assert_int_equal(file.times.plan_every_ns, 60 * TT_S);
    assert_int_equal(file.times.silence_ns, 50 * TT_MS);
    assert_int_equal(file.times.control_ns, 200 * TT_US);
    assert_int_equal(file.times.grace_ns, 0);
    assert_int_equal(tt_cluster_file_find(&file, "b2"), 3);
    assert_int_equal(tt_cluster_file_find(&file, "b4"), -1);
    tt_cluster_file_fini(&file);
}

static uint64_t digest_of(const char *text) {
    struct tt_cluster_file file;
    struct tt_error why;
    assert_int_equal(tt_cluster_file_parse("f", text, &file, &why), TT_OK);
    uint64_t digest = file.digest;
    tt_cluster_file_fini(&file);
    return digest;
}

#define NODES "scheduler s 127.0.0.1:1\nfrontend f 127.0.0.1:2\nbackend b 127.0.0.1:3"

static void the_digest_is_over_the_content(void **state) {
    (void)state;
    assert_int_equal(digest_of(NODES), digest_of("# a comment\n" NODES "\n\n"));
    assert_int_not_equal(digest_of(NODES), digest_of(NODES " devices=2"));
    assert_int_not_equal(digest_of(NODES), digest_of(NODES " pool=b"));
    assert_int_not_equal(digest_of(NODES), digest_of(NODES " memory-mib=8"));
    assert_int_not_equal(digest_of(NODES), digest_of(NODES " grants=2"));
    assert_int_equal(digest_of(NODES), digest_of(NODES " grants=1 executors=1"));
    assert_int_not_equal(digest_of(NODES " grants=2"), digest_of(NODES " executors=2"));
    assert_int_not_equal(digest_of(NODES), digest_of(NODES "\nsilence-ms 10"));
    assert_int_not_equal(digest_of(NODES), digest_of(NODES "\nvacancy-ms 10"));
    assert_int_not_equal(digest_of(NODES),
                         digest_of("frontend f 127.0.0.1:2\nscheduler s 127.0.0.1:1\n"
                                   "backend b 127.0.0.1:3"));
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"scheduler s", "f:1: a node is: scheduler NAME HOST:PORT"},
        {"\nbackend b 1.2.3.4", "f:2: '1.2.3.4' is no address"},
        {"backend b h:0", "'h:0' is no address"},
        {"backend b h:65536", "is no address"},
        {"backend b :7", "is no address"},
        {"backend b! h:7", "'b!' is no name"},
        {"backend b h:7\nbackend b h:8", "f:2: the name 'b' is given twice"},
        {"backend b h:7\nbackend c g:7\nscheduler s h:7", "f:3: 's' has the address of 'b'"},
        {"frontend b h:7 devices=2", "only a backend may have devices=N"},
        {"backend b h:7 devices=0", "N in 1 to"},
        {"backend b h:7 grants=65", "grants=N with N in 1 to 64"},
        {"backend b h:7 executors=0", "executors=N and grants=N"},
        {"backend b h:7 devices=100 executors=50",
         "devices=100 with executors=50 are 5000; at most 4096"},
        {"backend b h:7 devices=1000 grants=5",
         "devices=1000 with grants=5 are 5000; at most 4096"},
        {"backend b h:7 devices=2 more", "only a backend"},
        {"backend b h:7 pool=", "pool=NAME, and memory-mib=N"},
        {"backend b h:7 pool=a!", "'pool=a!' after the address"},
        {"scheduler b h:7 pool=a", "'pool=a' after the address"},
        {"backend b h:7 memory-mib=0", "'memory-mib=0' after the address"},
        {"frontend b h:7 memory-mib=8", "only a backend may have"},
        {"backend b h:7 pool=a devices=1 memory-mib=8 grants=2 more", "more than 7 words"},
        {"a b c d e f g h", "more than 7 words"},
        {"silence-ms", "silence-ms needs one number"},
        {"silence-ms -1", "needs one number"},
        {"silence-ms 1 2", "needs one number"},
        {"silent-ms 1", "'silent-ms'; a line begins with"},
        {"scheduler s h:1\nfrontend f h:2", "f: there is no backend"},
        {"", "there is no frontend"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_cluster_file file;
        struct tt_error why;
        assert_int_equal(tt_cluster_file_parse("f", cases[i].text, &file, &why), TT_ERR_INVALID);
        if (!strstr(why.text, cases[i].message))
            fail_msg("case %zu: %s", i, why.text);
    }
    struct tt_cluster_file file;
    struct tt_error why;
    assert_int_equal(tt_cluster_file_read("/nonexistent/nodes", &file, &why), TT_ERR_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(the_digest_is_over_the_content),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
