/* What is said to etcd, and what its answers mean. The answers are those of etcd 3.4.23. */
#include "base/clock.h"
#include "base/prng.h"
#include "etcd/etcd_address.h"
#include "etcd/etcd_message.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEADER "\"header\":{\"cluster_id\":\"1\",\"revision\":\"7\",\"raft_term\":\"2\"}"
/* "tutti/test/primary", "tutti/test/members/b1", "tutti/test/nodes", "other" */
#define PRIMARY "dHV0dGkvdGVzdC9wcmltYXJ5"
#define MEMBER "dHV0dGkvdGVzdC9tZW1iZXJzL2Ix"
#define NODES "dHV0dGkvdGVzdC9ub2Rlcw=="
#define OTHER "b3RoZXI="
#define PLACEMENT "dHV0dGkvdGVzdC9wbGFjZW1lbnQ="

/* ---- requests ---- */

static void says(const struct tt_coordination_request *request, const char *wanted) {
    struct tt_text body;
    tt_text_init(&body);
    tt_etcd_write("test", request, &body);
    if (!strstr(tt_text_string(&body), wanted))
        fail_msg("'%s' lacks '%s'", tt_text_string(&body), wanted);
    tt_text_fini(&body);
}

static void requests_name_keys_and_numbers(void **state) {
    (void)state;
    says(&(struct tt_coordination_request){.verb = TT_COORDINATION_LEASE, .ttl_ns = 30 * TT_S},
         "{\"TTL\": \"30\"}");
    says(&(struct tt_coordination_request){.verb = TT_COORDINATION_LEASE, .ttl_ns = 1},
         "{\"TTL\": \"1\"}"); /* rounded up */
    says(&(struct tt_coordination_request){.verb = TT_COORDINATION_KEEP, .lease = UINT64_MAX},
         "{\"ID\": \"18446744073709551615\"}");
    says(
        &(struct tt_coordination_request){
            .verb = TT_COORDINATION_JOIN, .lease = 9, .name = "b1", .value = "v"},
        "{\"key\": \"" MEMBER "\", \"value\": \"dg==\", \"lease\": \"9\"}");
    const struct tt_coordination_request swap = {
        .verb = TT_COORDINATION_SWAP, .epoch = 65537, .revision = 3};
    says(&swap, "\"key\": \"" PRIMARY "\", \"target\": \"MOD\", \"result\": \"EQUAL\", "
                "\"mod_revision\": \"3\"");
    says(&swap, "\"value\": \"NjU1Mzc=\"");
    const struct tt_coordination_request plan = {.verb = TT_COORDINATION_SWAP,
                                                 .key = TT_COORDINATION_PLACEMENT,
                                                 .epoch = 5,
                                                 .revision = 4,
                                                 .value = "5\nx"};
    says(&plan, "\"key\": \"" PLACEMENT "\", \"target\": \"MOD\", \"result\": \"EQUAL\", "
                "\"mod_revision\": \"4\"");
    says(&plan, "\"value\": \"NQp4\"");
    struct tt_text body;
    tt_text_init(&body);
    tt_etcd_write_watch("test", 8, &body);
    assert_string_equal(tt_text_string(&body),
                        "{\"create_request\": {\"key\": \"dHV0dGkvdGVzdC8=\", \"range_end\": "
                        "\"dHV0dGkvdGVzdDA=\", \"start_revision\": \"8\"}}");
    tt_text_fini(&body);
}

/* ---- answers ---- */

static enum tt_err reads(enum tt_coordination_verb verb, int32_t status, const char *body,
                         struct tt_coordination_answer *out_answer) {
    struct tt_error why = {{0}};
    *out_answer = (struct tt_coordination_answer){.number = 5};
    enum tt_err err = tt_etcd_read(verb, status, body, strlen(body), out_answer, &why);
    assert_true((err == TT_OK) == (why.text[0] == '\0'));
    assert_int_equal(out_answer->number, 5);
    return err;
}

static void leases(void **state) {
    (void)state;
    struct tt_coordination_answer answer;
    const char *grant = "{" HEADER ",\"ID\":\"7587899098276135685\",\"TTL\":\"30\"}";
    assert_int_equal(reads(TT_COORDINATION_LEASE, 200, grant, &answer), TT_OK);
    assert_true(answer.lease == UINT64_C(7587899098276135685) && answer.ttl_ns == 30 * TT_S);
    const char *kept = "{\"result\":{" HEADER ",\"ID\":\"12\",\"TTL\":\"30\"}}";
    assert_int_equal(reads(TT_COORDINATION_KEEP, 200, kept, &answer), TT_OK);
    const char *gone = "{\"result\":{" HEADER ",\"ID\":\"12\"}}";
    assert_int_equal(reads(TT_COORDINATION_KEEP, 200, gone, &answer), TT_ERR_NOT_FOUND);
    const char *refused = "{\"error\":\"e\",\"message\":\"requested lease not found\",\"code\":5}";
    assert_int_equal(reads(TT_COORDINATION_JOIN, 404, refused, &answer), TT_ERR_NOT_FOUND);
    const char *leaderless = "{\"error\":\"e\",\"message\":\"no leader\",\"code\":14}";
    assert_int_equal(reads(TT_COORDINATION_JOIN, 503, leaderless, &answer), TT_ERR_UNAVAILABLE);
    for (const char *const *bad = (const char *const[]){"", "[]", "{", "{}", "{\"ID\":\"-1\"}",
                                                        "{\"ID\":\"1\",\"TTL\":\"x\"}",
                                                        "{\"ID\":\"99999999999999999999\"}", NULL};
         *bad; bad++)
        assert_int_equal(reads(TT_COORDINATION_LEASE, 200, *bad, &answer), TT_ERR_INVALID);
}

static void swaps(void **state) {
    (void)state;
    struct tt_coordination_answer answer;
    const char *done = "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}}]}";
    assert_int_equal(reads(TT_COORDINATION_SWAP, 200, done, &answer), TT_OK);
    assert_true(answer.is_done && answer.revision == 7);
    const char *other =
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"" PRIMARY
        "\",\"mod_revision\":\"4\",\"value\":\"NjU1Mzc=\"}],\"count\":\"1\"}}]}";
    assert_int_equal(reads(TT_COORDINATION_SWAP, 200, other, &answer), TT_OK);
    assert_true(!answer.is_done && answer.revision == 4 && answer.epoch == 65537);
    const char *none = "{" HEADER ",\"responses\":[{\"response_range\":{}}]}";
    assert_int_equal(reads(TT_COORDINATION_SWAP, 200, none, &answer), TT_OK);
    assert_true(!answer.is_done && answer.revision == 0 && answer.epoch == 0);
    const char *text =
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"" PRIMARY
        "\",\"mod_revision\":\"4\",\"value\":\"b3RoZXI=\"}]}}]}";
    assert_int_equal(reads(TT_COORDINATION_SWAP, 200, text, &answer), TT_OK);
    assert_true(answer.revision == 4 && answer.epoch == 0); /* it is written over */
    assert_int_equal(reads(TT_COORDINATION_SWAP, 200, "{\"succeeded\":true}", &answer),
                     TT_ERR_INVALID);
    assert_int_equal(reads(TT_COORDINATION_SWAP, 200, "{" HEADER "}", &answer), TT_ERR_INVALID);
}

/* ---- keys ---- */

struct seen {
    char text[512];
    int32_t count;
};

static void on_entry(void *context, const struct tt_etcd_entry *entry) {
    struct seen *self = context;
    size_t length = strlen(self->text);
    self->count++;
    snprintf(self->text + length, sizeof(self->text) - length, "%d %d %s %s %d %d;",
             (int)entry->key, (int)entry->is_there, entry->node, entry->value, (int)entry->epoch,
             (int)entry->revision);
}

static void lists_and_changes(void **state) {
    (void)state;
    struct seen seen = {{0}, 0};
    struct tt_error why;
    int64_t revision;
    const char *list = "{" HEADER ",\"kvs\":["
                       "{\"key\":\"" MEMBER "\",\"mod_revision\":\"3\",\"value\":\"dg==\"},"
                       "{\"key\":\"" NODES "\",\"mod_revision\":\"2\",\"value\":\"eA==\"},"
                       "{\"key\":\"" OTHER "\",\"mod_revision\":\"2\",\"value\":\"eA==\"},"
                       "{\"key\":\"" PRIMARY "\",\"mod_revision\":\"4\",\"value\":\"NQ==\"}]}";
    assert_int_equal(
        tt_etcd_read_list("test", list, strlen(list), on_entry, &seen, &revision, &why), TT_OK);
    assert_int_equal(revision, 7);
    assert_string_equal(seen.text, "2 1 b1 v 0 3;1 1  x 0 2;3 1  5 5 4;");
    const char *change =
        "{\"result\":{" HEADER ",\"events\":[{\"type\":\"DELETE\",\"kv\":{\"key\":\"" MEMBER
        "\",\"mod_revision\":\"7\"}},{\"kv\":{\"key\":\"" PRIMARY
        "\",\"mod_revision\":\"7\",\"value\":\"Ng==\"}}]}}";
    seen = (struct seen){{0}, 0};
    assert_int_equal(
        tt_etcd_read_change("test", change, strlen(change), on_entry, &seen, &revision, &why),
        TT_OK);
    assert_string_equal(seen.text, "2 0 b1  0 7;3 1  6 6 7;");
    const char *created = "{\"result\":{" HEADER ",\"created\":true}}";
    assert_int_equal(
        tt_etcd_read_change("test", created, strlen(created), on_entry, &seen, &revision, &why),
        TT_OK);
    const char *ended[] = {"{\"error\":{\"grpc_code\":14}}",
                           "{\"result\":{" HEADER
                           ",\"canceled\":true,\"compact_revision\":\"9\"}}"};
    for (int32_t i = 0; i < 2; i++)
        assert_int_equal(tt_etcd_read_change("test", ended[i], strlen(ended[i]), on_entry, &seen,
                                             &revision, &why),
                         TT_ERR_UNAVAILABLE);
    const char *bad[] = {"{" HEADER ",\"kvs\":[{\"key\":\"====\",\"mod_revision\":\"3\"}]}",
                         "{" HEADER ",\"kvs\":[{\"key\":\"a\",\"mod_revision\":\"3\"}]}",
                         "{" HEADER ",\"kvs\":[{\"key\":\"" MEMBER "\",\"mod_revision\":\"-3\"}]}",
                         "{" HEADER ",\"kvs\":[3]}", "{\"kvs\":[]}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(
            tt_etcd_read_list("test", bad[i], strlen(bad[i]), on_entry, &seen, &revision, &why),
            TT_ERR_INVALID);
}

/* What is written and comes back in an answer is what it was. */
static void values_survive_base64(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    for (int32_t trial = 0; trial < 300; trial++) {
        char value[64] = "";
        size_t length = tt_prng_below(&prng, sizeof(value));
        for (size_t i = 0; i < length; i++)
            value[i] = (char)(1 + tt_prng_below(&prng, 255));
        value[length] = '\0';
        struct tt_text body, list;
        tt_text_init(&body);
        tt_text_init(&list);
        tt_etcd_write("test",
                      &(struct tt_coordination_request){
                          .verb = TT_COORDINATION_JOIN, .name = "b1", .value = value},
                      &body);
        const char *from = strstr(tt_text_string(&body), "\"value\": \"");
        assert_non_null(from);
        from += strlen("\"value\": \"");
        tt_text_printf(&list,
                       "{" HEADER ",\"kvs\":[{\"key\":\"" MEMBER
                       "\",\"mod_revision\":\"1\",\"value\":\"%.*s\"}]}",
                       (int)strcspn(from, "\""), from);
        struct seen seen = {{0}, 0};
        struct tt_error why;
        int64_t revision;
        assert_int_equal(tt_etcd_read_list("test", tt_text_string(&list), list.length, on_entry,
                                           &seen, &revision, &why),
                         TT_OK);
        char wanted[128];
        snprintf(wanted, sizeof(wanted), "2 1 b1 %s 0 1;", value);
        assert_string_equal(seen.text, wanted);
        tt_text_fini(&body);
        tt_text_fini(&list);
    }
}

static void addresses(void **state) {
    (void)state;
    static struct tt_etcd_address address;
    struct tt_error why;
    assert_int_equal(tt_etcd_address_parse("etcd://127.0.0.1:2379,127.0.0.2:80,[::1]/a-b_c.1", NULL,
                                           &address, &why),
                     TT_OK);
    assert_int_equal(address.server_count, 3);
    assert_string_equal(address.name, "a-b_c.1");
    assert_int_equal(address.servers[1].tcp_port, 80);
    assert_int_equal(address.servers[2].tcp_port, 2379);
    const char *bad[] = {"etcd://",
                         "etcd:///x",
                         "etcd://127.0.0.1",
                         "etcd://127.0.0.1/",
                         "etcd://127.0.0.1/a/b",
                         "etcd://127.0.0.1/a b",
                         "etcd://127.0.0.1:x/a",
                         "static:x",
                         ("etcd://1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,1.2.3.4,"
                          "1.2.3.4,1.2.3.4,1.2.3.4/a")};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(tt_etcd_address_parse(bad[i], NULL, &address, &why), TT_ERR_INVALID);
}

/* Files that do not go together, or are not there. */
static void addresses_over_tls(void **state) {
    (void)state;
    static struct tt_etcd_address address;
    struct tt_error why;
    assert_int_equal(tt_etcd_address_parse("etcds://127.0.0.1,[::1]:80/a", NULL, &address, &why),
                     TT_OK);
    assert_true(address.servers[0].is_tls && address.servers[1].is_tls && address.login);
    assert_int_equal(address.servers[0].tcp_port, 2379);
    tt_etcd_address_fini(&address);
    const struct {
        const char *spec;
        struct tt_etcd_tls_files files;
        const char *said;
    } bad[] = {{"etcd://127.0.0.1/a", {.ca = "x"}, "need etcds://"},
               {"etcd://127.0.0.1/a", {.key = "x"}, "need etcds://"},
               {"etcds://127.0.0.1/a", {.ca = "x", .certificate = "x"}, "go together"},
               {"etcds://127.0.0.1/a", {.ca = "x", .key = "x"}, "go together"},
               {"etcds://127.0.0.1/a", {.certificate = "x", .key = "x"}, "with --etcd-ca"},
               {"etcds://127.0.0.1/a", {.ca = "/nonexistent.pem"}, "/nonexistent.pem"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_true(tt_etcd_address_parse(bad[i].spec, &bad[i].files, &address, &why) != TT_OK);
        assert_non_null(strstr(why.text, bad[i].said));
        assert_null(address.login);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_name_keys_and_numbers),
        cmocka_unit_test(leases),
        cmocka_unit_test(swaps),
        cmocka_unit_test(lists_and_changes),
        cmocka_unit_test(values_survive_base64),
        cmocka_unit_test(addresses),
        cmocka_unit_test(addresses_over_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
