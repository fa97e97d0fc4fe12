/* Tokens, roles and gates; every route of HTTP and every method of gRPC has an operation. */
#include "fake_serving.h"

#include "base/log/log.h"
#include "net/access/access_control.h"
#include "net/grpc/grpc_methods.h"
#include "net/http/http_operation.h"
#include "net/http/http_routes.h"
#include "unit/breach.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

/* --- tokens --- */

static void line_of(const char *token, const char *format, struct tt_text *out) {
    struct tt_token_digest digest;
    char hex[TT_TOKEN_DIGEST_HEX + 1], name_role[64];
    tt_token_digest(token, strlen(token), &digest);
    tt_token_digest_write(&digest, hex);
    snprintf(name_role, sizeof(name_role), "%.*s", (int)strcspn(format, "$"), format);
    tt_text_printf(out, "%s%s%s\n", name_role, hex, strchr(format, '$') + 1);
}

static struct tt_token_table *parse(const struct tt_text *text,
                                    const struct tt_token_table *former) {
    struct tt_token_table *table = NULL;
    struct tt_error why = {{0}};
    if (tt_token_table_parse("tokens", text->bytes, text->length, former, &table, &why) != TT_OK)
        fail_msg("%s", why.text);
    tt_token_table_check(table);
    return table;
}

static struct tt_identity *find(const struct tt_token_table *table, const char *token) {
    struct tt_token_digest digest;
    tt_token_digest(token, strlen(token), &digest);
    return tt_token_table_find(table, &digest);
}

static void test_file(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    tt_text_puts(&text, "# clients\n\n  \t\r\n");
    line_of("secret", "ann infer $  in_flight=3 rate=70 # a comment", &text);
    line_of("other", "bob@x.org\tadmin\t$", &text);
    line_of("next", "ann infer $ rate=70 in_flight=3", &text); /* the token that replaces hers */
    line_of("m", "mon read $\r", &text);
    struct tt_token_table *table = parse(&text, NULL);
    assert_int_equal(table->count, 4);
    struct tt_identity *ann = find(table, "secret");
    assert_string_equal(ann->name, "ann");
    assert_int_equal(ann->role, TT_ROLE_INFER);
    assert_int_equal(ann->in_flight_limit, 3);
    assert_int_equal(ann->rate_limit, 70);
    assert_ptr_equal(find(table, "next"), ann);
    assert_int_equal(find(table, "other")->role, TT_ROLE_ADMIN);
    assert_int_equal(find(table, "m")->in_flight_limit, 0);
    assert_null(find(table, "secret "));
    assert_null(find(table, ""));

    /* An identity whose line stays keeps its counts; a changed one begins anew. */
    struct tt_error why;
    assert_true(tt_identity_enter(ann, &why));
    tt_text_clear(&text);
    line_of("new", "ann infer $ in_flight=3 rate=70", &text);
    line_of("other", "bob@x.org read $", &text);
    struct tt_token_table *next = parse(&text, table);
    assert_ptr_equal(find(next, "new"), ann);
    assert_null(find(next, "secret"));
    assert_ptr_not_equal(find(next, "other"), find(table, "other"));
    tt_token_table_unref(table);
    assert_int_equal(tt_client_limits_in_work(&ann->holder.limits), 1);
    tt_identity_leave(ann);
    tt_token_table_unref(next);
    tt_text_fini(&text);
}

static void test_broken_files(void **state) {
    (void)state;
#define DIGEST "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef"
#define OTHER "1123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef"
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "tokens: the file has no token"},
        {"# nothing\n", "tokens: the file has no token"},
        {"\nann", "tokens:2: the second field is the role"},
        {"ann boss " DIGEST, "tokens:1: the second field is the role"},
        {"ann inferx " DIGEST, "tokens:1: the second field is the role"},
        {"ann infer", "tokens:1: the third field is the SHA-256 digest"},
        {"ann infer 12", "tokens:1: the third field is the SHA-256 digest"},
        {"ann infer " DIGEST "0", "tokens:1: the third field is the SHA-256 digest"},
        {"ann infer g"
         "123456789abcdef0123456789ABCDEF0123456789abcdef0123456789abcdef",
         "tokens:1: the third field is the SHA-256 digest"},
        {"a,b infer " DIGEST, "tokens:1: a name has at most 63"},
        {"ann infer " DIGEST " fast", "tokens:1: after the digest only in_flight=N and rate=N"},
        {"ann infer " DIGEST " rate=0", "tokens:1: a limit is a number from 1 to 1000000000"},
        {"ann infer " DIGEST " rate=", "tokens:1: a limit is a number from 1 to 1000000000"},
        {"ann infer " DIGEST " rate=-1", "tokens:1: a limit is a number from 1 to 1000000000"},
        {"ann infer " DIGEST " in_flight=1000000001", "tokens:1: a limit is a number"},
        {"ann infer " DIGEST " in_flight=99999999999999999999999", "tokens:1: a limit is a number"},
        {"ann infer " DIGEST "\nbob infer " DIGEST, "tokens:2: the digest stands above"},
        {"ann infer " DIGEST "\nann read " OTHER, "tokens:2: the name stands above with another"},
        {"ann infer " DIGEST "\nann infer " OTHER " rate=1", "tokens:2: the name stands above"},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_token_table *table = NULL;
        struct tt_error why = {{0}};
        enum tt_err err = tt_token_table_parse("tokens", cases[i].text, strlen(cases[i].text), NULL,
                                               &table, &why);
        assert_int_equal(err, TT_ERR_INVALID);
        assert_null(table);
        if (strncmp(why.text, cases[i].error, strlen(cases[i].error)) != 0)
            fail_msg("%s: %s", cases[i].text, why.text);
    }
    struct tt_text many;
    tt_text_init(&many);
    for (int i = 0; i <= TT_TOKEN_FILE_LINES; i++)
        tt_text_printf(&many, "n%d read %064x\n", i, (unsigned)i + 1);
    struct tt_token_table *table;
    struct tt_error why;
    assert_int_equal(tt_token_table_parse("t", many.bytes, many.length, NULL, &table, &why),
                     TT_ERR_INVALID);
    assert_string_equal(why.text, "t:1025: a file has at most 1024 tokens");
    tt_text_fini(&many);
}

/* The comparison says the same as memcmp, for single bits and random words. */
static void test_digests(void **state) {
    (void)state;
    uint64_t seed = test_seed(5);
    struct tt_token_digest one, other;
    for (int i = 0; i < 1000; i++) {
        for (int w = 0; w < TT_TOKEN_DIGEST_WORDS; w++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
            one.words[w] = seed;
        }
        other = one;
        assert_true(tt_token_digest_equal(&one, &other) == UINT64_MAX);
        other.words[i % 4] ^= UINT64_C(1) << (i / 4 % 64);
        assert_true(tt_token_digest_equal(&one, &other) == 0);
        char hex[TT_TOKEN_DIGEST_HEX + 1];
        tt_token_digest_write(&one, hex);
        assert_true(tt_token_digest_parse(hex, strlen(hex), &other));
        assert_memory_equal(&one, &other, sizeof(one));
    }
    char hex[TT_TOKEN_DIGEST_HEX + 1]; /* a known digest: that of the empty text */
    tt_token_digest("", 0, &one);
    tt_token_digest_write(&one, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void test_header(void **state) {
    (void)state;
    static const struct {
        const char *value, *token; /* NULL: none */
    } cases[] = {
        {"Bearer secret", "secret"},
        {"bearer   secret \t", "secret"},
        {"Bearer a b", "a b"},
        {"Bearer ", NULL},
        {"Bearer", NULL},
        {"", NULL},
        {"secret", NULL},
        {"Digest secret", NULL},
        {"Basic YW5uOnNlY3JldA==", "secret"}, /* ann:secret */
        {"Basic OnNlY3JldA==", "secret"},     /* :secret */
        {"Basic YW5u", NULL},                 /* no colon */
        {"Basic YW5uOg==", NULL},             /* no password */
        {"Basic !!!!", NULL},
        {"Basic YW5", NULL},
    };
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        struct tt_token token;
        struct tt_token_digest digest;
        tt_token_read(cases[i].value, strlen(cases[i].value), &token);
        if (token.is_given != (cases[i].token != NULL))
            fail_msg("%s", cases[i].value);
        if (!cases[i].token)
            continue;
        tt_token_digest(cases[i].token, strlen(cases[i].token), &digest);
        assert_memory_equal(&digest, &token.digest, sizeof(digest));
    }
}

static struct tt_token_table *breaking;

static void break_digest(void) {
    breaking->entries[1].digest = breaking->entries[0].digest;
    tt_token_table_check(breaking);
}

static void break_name(void) {
    breaking->entries[0].identity->name[0] = ' ';
    tt_token_table_check(breaking);
}

static void test_check(void **state) {
    (void)state;
    struct tt_text text;
    tt_text_init(&text);
    line_of("a", "a read $", &text);
    line_of("b", "b read $", &text);
    breaking = parse(&text, NULL);
    assert_breaks(break_digest, "break_digest", "tt_token_digest_equal");
    assert_breaks(break_name, "break_name", "is_name");
    tt_token_table_unref(breaking);
    tt_text_fini(&text);
}

/* --- roles and gates --- */

static void test_roles(void **state) {
    (void)state;
    /* By operation: infer, read, admin. */
    static const char *const may[TT_OPERATION_COUNT] = {
        [TT_OPERATION_HEALTH] = "yyy",   [TT_OPERATION_UNKNOWN] = "yyy",
        [TT_OPERATION_METADATA] = "yyy", [TT_OPERATION_INFER] = "yny",
        [TT_OPERATION_READ] = "nyy",     [TT_OPERATION_MANAGE] = "nny",
        [TT_OPERATION_DEBUG] = "nny"};
    for (int operation = 0; operation < TT_OPERATION_COUNT; operation++) {
        assert_true(*tt_operation_name((enum tt_operation)operation));
        assert_int_equal(tt_operation_is_open((enum tt_operation)operation),
                         operation == TT_OPERATION_HEALTH);
        for (int role = 0; role < TT_ROLE_COUNT; role++)
            assert_int_equal(tt_role_may((enum tt_role)role, (enum tt_operation)operation),
                             may[operation][role] == 'y');
    }
    enum tt_role role = TT_ROLE_COUNT;
    assert_false(tt_role_parse("adm", 3, &role));
    assert_false(tt_role_parse("Admin", 5, &role));
    assert_true(tt_role_parse("admin", 5, &role));
    assert_int_equal(role, TT_ROLE_ADMIN);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static enum tt_verdict check(struct tt_gate *gate, enum tt_operation operation, const char *token,
                             int64_t now) {
    struct tt_identity *identity;
    struct tt_error why = {{0}};
    struct tt_token given = {.is_given = token != NULL};
    if (token)
        tt_token_digest(token, strlen(token), &given.digest);
    enum tt_verdict verdict = tt_gate_check(gate, operation, &given, now, &identity, &why);
    assert_int_equal(verdict != TT_VERDICT_ALLOWED, why.text[0] != '\0');
    tt_identity_unref(identity);
    return verdict;
}

static void test_gate(void **state) {
    (void)state;
    char path[] = "/tmp/tutti_tokens_XXXXXX";
    close(mkstemp(path));
    struct tt_text text;
    tt_text_init(&text);
    line_of("a", "ann infer $ rate=2", &text);
    line_of("b", "bob admin $", &text);
    write_file(path, text.bytes);
    struct tt_access_control control;
    struct tt_error why;
    assert_int_equal(tt_access_control_init(&control, path, true, NULL, &why), TT_OK);
    struct tt_gate gate, admin, local;
    tt_gate_init(&gate, &control, TT_GATE_PUBLIC);
    tt_gate_init(&admin, &control, TT_GATE_ADMIN);
    tt_gate_init(&local, &control, TT_GATE_LOCAL);
    assert_int_equal(check(&gate, TT_OPERATION_HEALTH, NULL, 0), TT_VERDICT_ALLOWED);
    assert_int_equal(check(&gate, TT_OPERATION_INFER, NULL, 0), TT_VERDICT_NO_TOKEN);
    assert_int_equal(check(&gate, TT_OPERATION_UNKNOWN, NULL, 0), TT_VERDICT_NO_TOKEN);
    assert_int_equal(check(&gate, TT_OPERATION_INFER, "x", 0), TT_VERDICT_NO_TOKEN);
    assert_int_equal(check(&gate, TT_OPERATION_READ, "a", 0), TT_VERDICT_ROLE);
    /* Two in a second, whatever was refused before. */
    assert_int_equal(check(&gate, TT_OPERATION_INFER, "a", 0), TT_VERDICT_ALLOWED);
    assert_int_equal(check(&gate, TT_OPERATION_INFER, "a", 0), TT_VERDICT_ALLOWED);
    assert_int_equal(check(&gate, TT_OPERATION_INFER, "a", 1), TT_VERDICT_LIMIT);
    assert_int_equal(check(&gate, TT_OPERATION_INFER, "a", TT_S / 2), TT_VERDICT_ALLOWED);
    assert_int_equal(check(&gate, TT_OPERATION_INFER, "a", TT_S / 2), TT_VERDICT_LIMIT);
    /* Management is on the admin interface only; a Unix socket needs no token. */
    assert_int_equal(check(&gate, TT_OPERATION_MANAGE, "b", 0), TT_VERDICT_ELSEWHERE);
    assert_int_equal(check(&gate, TT_OPERATION_DEBUG, "b", 0), TT_VERDICT_ELSEWHERE);
    assert_int_equal(check(&gate, TT_OPERATION_READ, "b", 0), TT_VERDICT_ALLOWED);
    assert_int_equal(check(&admin, TT_OPERATION_MANAGE, "b", 0), TT_VERDICT_ALLOWED);
    assert_int_equal(check(&admin, TT_OPERATION_MANAGE, NULL, 0), TT_VERDICT_NO_TOKEN);
    assert_int_equal(check(&local, TT_OPERATION_MANAGE, NULL, 0), TT_VERDICT_ALLOWED);
    /* A broken file changes nothing; a right one is in force at once. */
    write_file(path, "broken");
    tt_access_control_reload(&control);
    assert_int_equal(check(&gate, TT_OPERATION_READ, "b", 0), TT_VERDICT_ALLOWED);
    tt_text_clear(&text);
    line_of("c", "bob admin $", &text);
    write_file(path, text.bytes);
    tt_access_control_reload(&control);
    assert_int_equal(check(&gate, TT_OPERATION_READ, "b", 0), TT_VERDICT_NO_TOKEN);
    assert_int_equal(check(&gate, TT_OPERATION_READ, "c", 0), TT_VERDICT_ALLOWED);
    tt_gate_fini(&gate);
    tt_gate_fini(&admin);
    tt_gate_fini(&local);
    tt_access_control_fini(&control);
    unlink(path);
    assert_int_equal(tt_access_control_init(&control, path, false, NULL, &why), TT_ERR_NOT_FOUND);
    tt_text_fini(&text);
}

static void test_in_flight(void **state) {
    (void)state;
    struct tt_identity identity = {.name = "ann", .in_flight_limit = 2};
    struct tt_error why;
    assert_true(tt_identity_enter(NULL, &why));
    tt_identity_leave(NULL);
    assert_true(tt_identity_enter(&identity, &why));
    assert_true(tt_identity_enter(&identity, &why));
    assert_false(tt_identity_enter(&identity, &why));
    assert_string_equal(why.text, "ann has reached its limit of 2 inferences at a time");
    tt_identity_leave(&identity);
    assert_true(tt_identity_enter(&identity, &why));
    assert_int_equal(tt_client_limits_in_work(&identity.holder.limits), 2);
}

/* --- routes --- */

struct routes {
    struct tt_http_context context;
    int answered;
};

/* What the router does with the path agrees with the operation of the path. */
static void check_route(struct routes *self, const char *target, const char *method) {
    const struct tt_http_request request = {
        .method = method, .target = target, .body = "", .json_bytes = -1, .host = "", .origin = ""};
    struct tt_kserve_target model;
    struct tt_model_command *command = NULL;
    struct tt_reply reply = {0};
    struct tt_http_path path;
    enum tt_route_kind kind = tt_route(&self->context, &request, &model, &command, &reply);
    tt_http_path_split(target, &path);
    enum tt_operation operation = tt_http_operation(&path, method, false);
    bool is_found = kind != TT_ROUTE_REPLY || (reply.status != 404 && reply.status != 405);
    if (is_found && operation == TT_OPERATION_UNKNOWN)
        fail_msg("%s %s is answered, but has no operation", method, target);
    if (kind == TT_ROUTE_REPLY && reply.status == 405 && operation != TT_OPERATION_UNKNOWN)
        fail_msg("%s %s is not answered, but has an operation", method, target);
    if (kind == TT_ROUTE_COMMAND && operation != TT_OPERATION_MANAGE)
        fail_msg("%s %s changes models: it is management", method, target);
    bool infers =
        kind == TT_ROUTE_INFER || kind == TT_ROUTE_GENERATE || kind == TT_ROUTE_GENERATE_STREAM;
    if (infers && operation != TT_OPERATION_INFER)
        fail_msg("%s %s is inference", method, target);
    self->answered += is_found;
    tt_model_command_free(command);
    tt_text_fini(&reply.body);
}

static const char *const words[] = {"identity",
                                    "v2",
                                    "models",
                                    "versions",
                                    "1",
                                    "infer",
                                    "ready",
                                    "config",
                                    "stats",
                                    "trace",
                                    "setting",
                                    "logging",
                                    "repository",
                                    "index",
                                    "load",
                                    "unload",
                                    "health",
                                    "live",
                                    "debug",
                                    "metrics",
                                    "generate",
                                    "generate_stream",
                                    "generate",
                                    "generate_stream",
                                    "openapi.json",
                                    "systemsharedmemory",
                                    "region",
                                    "status",
                                    "register",
                                    "unregister"};

static bool is_one_of(const char *word, const char *const *others, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, others[i]) == 0)
            return true;
    return false;
}

/* All paths of up to `depth` parts. Beyond three parts, only below what can go on, and with one
 * name of a model. */
static void walk_routes(struct routes *self, char *target, size_t length, int parts, int depth) {
    static const char *const deep[] = {"/v2/models", "/v2/repository", "/v2/systemsharedmemory"};
    static const char *const third[] = {"identity", "models", "region"};
    check_route(self, length ? target : "/", "GET");
    check_route(self, length ? target : "/", "POST");
    check_route(self, length ? target : "/", "PUT");
    if (parts == depth)
        return;
    bool is_deep = parts != 2 || is_one_of(target, deep, TT_COUNT(deep));
    for (size_t i = 0; i < TT_COUNT(words); i++) {
        if (parts == 1 && strcmp(target, "/v2") != 0 && i > 0)
            break;
        bool goes_on = is_deep && (parts != 2 || is_one_of(words[i], third, TT_COUNT(third)));
        int added = snprintf(target + length, 64, "/%s", words[i]);
        walk_routes(self, target, length + (size_t)added, parts + 1, goes_on ? depth : 3);
        target[length] = '\0';
    }
}

static void test_every_route(void **state) {
    (void)state;
    struct tt_serving serving;
    struct tt_port *port = NULL;
    struct tt_error why;
    struct tt_log_settings settings;
    tt_log_settings_init(&settings);
    fake_serving_init(&serving);
    assert_int_equal(tt_serving_open_port(&serving, NULL, NULL, &port, &why), TT_OK);
    struct routes routes = {.context = {.service = {.serving = &serving,
                                                    .port = port,
                                                    .server_version = "1",
                                                    .log_settings = &settings},
                                        .json_depth = 100,
                                        .management_bytes = 1000}};
    char target[1024] = "";
    walk_routes(&routes, target, 0, 0, 6);
    assert_in_range(routes.answered, 30, 100000); /* every row of the table at least */
    tt_port_close(port);
    fake_serving_fini(&serving);
}

static void test_every_method(void **state) {
    (void)state;
    size_t count = 0;
    for (const struct tt_grpc_method *method; (method = tt_grpc_method_at(count)); count++) {
        enum tt_operation wanted = TT_OPERATION_COUNT;
        switch (method->kind) {
        case TT_GRPC_INFER:
        case TT_GRPC_STREAM: wanted = TT_OPERATION_INFER; break;
        case TT_GRPC_LOAD:
        case TT_GRPC_UNLOAD: wanted = TT_OPERATION_MANAGE; break;
        case TT_GRPC_WATCH: wanted = TT_OPERATION_HEALTH; break;
        case TT_GRPC_EACH: wanted = TT_OPERATION_METADATA; break;
        case TT_GRPC_UNARY:
        case TT_GRPC_STATISTICS:
        case TT_GRPC_INDEX:
            wanted = strstr(method->name, "Live") || strstr(method->name, "Ready") ||
                             strcmp(method->name, "Check") == 0
                         ? TT_OPERATION_HEALTH
                     : strstr(method->name, "Metadata") || strstr(method->name, "Config")
                         ? TT_OPERATION_METADATA
                     : strstr(method->name, "Statistics") || strstr(method->name, "Index") ||
                             strstr(method->name, "MemoryStatus")
                         ? TT_OPERATION_READ
                         : TT_OPERATION_MANAGE;
            break;
        }
        if (method->operation != wanted)
            fail_msg("%s: %s", method->name, tt_operation_name(method->operation));
    }
    assert_int_equal(count, 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),        cmocka_unit_test(test_broken_files),
        cmocka_unit_test(test_digests),     cmocka_unit_test(test_header),
        cmocka_unit_test(test_check),       cmocka_unit_test(test_roles),
        cmocka_unit_test(test_gate),        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_every_route), cmocka_unit_test(test_every_method),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
