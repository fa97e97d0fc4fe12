/* threaded */
/* S7: memory of another process through UCX: gets, puts, lanes that are one-sided and lanes that
 * are emulated, endpoints that end while operations are under way. Over UCX's own lanes of one
 * machine: no test has run over RDMA. UCX makes threads of its own. */
#include "net/ucx/ucx_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "unit/breach.h"
#include "unit/ucx_unpacked.h"

enum { SIZE = 1 << 20, ENOUGH = 20000000 };

static struct tt_ucx_library library;
static struct tt_error why;

/* An owner of memory, and one that accesses it. */
struct pair {
    struct tt_ucx owner, user;
    struct tt_ucx_region theirs, ours;
    struct tt_ucx_endpoint *endpoint;
    void *key;
    int32_t gone;
};

struct operation {
    struct tt_ucx_operation base;
    int32_t calls;
    bool is_done;
};

static void on_done(struct tt_ucx_operation *base, bool is_done) {
    struct operation *self = TT_CONTAINER_OF(base, struct operation, base);
    self->calls++;
    self->is_done = is_done;
}

static void on_gone(void *context) { (*(int32_t *)context)++; }

static void open_pair(struct pair *self, const char *lanes) {
    setenv("UCX_TLS", lanes, 1);
    *self = (struct pair){.gone = 0};
    assert_int_equal(tt_ucx_open(&self->owner, &library, &why), TT_OK);
    assert_int_equal(tt_ucx_open(&self->user, &library, &why), TT_OK);
    assert_int_equal(tt_ucx_region_new(&self->owner, SIZE, &self->theirs, &why), TT_OK);
    assert_int_equal(tt_ucx_region_new(&self->user, SIZE, &self->ours, &why), TT_OK);
    assert_int_equal(tt_ucx_connect(&self->user, self->owner.address, &self->endpoint, &why),
                     TT_OK);
    assert_int_equal(tt_ucx_key_unpack(self->endpoint, self->theirs.key, &self->key, &why), TT_OK);
}

static void turn(struct pair *self) {
    tt_ucx_progress(&self->owner);
    tt_ucx_progress(&self->user);
    tt_ucx_check(&self->owner);
    tt_ucx_check(&self->user);
}

static void await_end(struct pair *self, const struct operation *operation) {
    for (int32_t i = 0; i < ENOUGH && operation->calls == 0; i++)
        turn(self);
    assert_int_equal(operation->calls, 1);
}

static void close_pair(struct pair *self) {
    tt_ucx_endpoint_close(self->endpoint, on_gone, &self->gone);
    for (int32_t i = 0; i < ENOUGH && self->gone == 0; i++)
        turn(self);
    assert_int_equal(self->gone, 1);
    tt_ucx_key_free(&self->user, self->key);
    tt_ucx_region_free(&self->user, &self->ours);
    tt_ucx_region_free(&self->owner, &self->theirs);
    tt_ucx_close(&self->user);
    tt_ucx_close(&self->owner);
}

static uint64_t there(const struct pair *self, size_t at) {
    return (uint64_t)(uintptr_t)(self->theirs.bytes + at);
}

static void get(struct pair *self, struct operation *operation, size_t at, size_t bytes) {
    *operation = (struct operation){.base = {.done = on_done}};
    tt_ucx_get(self->endpoint, &operation->base, &self->ours, self->ours.bytes + at, bytes,
               there(self, at), self->key);
    assert_int_equal(operation->calls, 0); /* never from the call */
}

/* What is written arrives, and what is there is read, whatever its size. */
static void move_bytes(const char *lanes) {
    struct pair pair;
    struct operation operation;
    const size_t sizes[] = {8, 64, 4097, 150000, SIZE / 2};
    open_pair(&pair, lanes);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t bytes = sizes[i], at = SIZE / 2 - 1;
        memset(pair.theirs.bytes + at, (int)i + 1, bytes);
        get(&pair, &operation, at, bytes);
        await_end(&pair, &operation);
        assert_true(operation.is_done);
        assert_memory_equal(pair.ours.bytes + at, pair.theirs.bytes + at, bytes);
        memset(pair.ours.bytes, (int)i + 101, bytes);
        struct operation put = {.base = {.done = on_done}}, flush = {.base = {.done = on_done}};
        tt_ucx_put(pair.endpoint, &put.base, &pair.ours, pair.ours.bytes, bytes, there(&pair, 0),
                   pair.key);
        tt_ucx_flush(pair.endpoint, &flush.base);
        await_end(&pair, &flush);
        await_end(&pair, &put);
        assert_true(put.is_done && flush.is_done);
        assert_memory_equal(pair.ours.bytes, pair.theirs.bytes, bytes);
    }
    close_pair(&pair);
}

static void bytes_move(void **state) {
    (void)state;
    if (!library.major)
        skip();
    move_bytes("posix,cma");
    move_bytes("sysv");
    move_bytes("tcp");
}

/* The owner makes no progress: one-sided lanes do not need it. */
static void shared_memory_is_one_sided(void **state) {
    (void)state;
    if (!library.major)
        skip();
    struct pair pair;
    struct operation operation;
    open_pair(&pair, "posix,cma");
    tt_ucx_hold(&pair.owner, true);
    pair.theirs.bytes[5] = 77;
    get(&pair, &operation, 0, SIZE);
    await_end(&pair, &operation);
    assert_true(operation.is_done);
    assert_int_equal(pair.ours.bytes[5], 77);
    struct tt_text lanes;
    tt_text_init(&lanes);
    tt_ucx_endpoint_lanes(pair.endpoint, &lanes);
    assert_non_null(strstr(tt_text_string(&lanes), "posix/memory"));
    tt_text_fini(&lanes);
    tt_ucx_hold(&pair.owner, false);
    close_pair(&pair);
}

/* Over TCP the owner must look: held, it does not, and the access waits. */
static void tcp_is_emulated(void **state) {
    (void)state;
    if (!library.major)
        skip();
    struct pair pair;
    struct operation operation;
    open_pair(&pair, "tcp");
    get(&pair, &operation, 0, 8);
    await_end(&pair, &operation); /* the connection stands */
    tt_ucx_hold(&pair.owner, true);
    get(&pair, &operation, 0, 64);
    for (int32_t i = 0; i < 20000; i++)
        turn(&pair);
    assert_int_equal(operation.calls, 0);
    assert_true(tt_ucx_rest(&pair.owner)); /* nothing to do for it */
    tt_ucx_hold(&pair.owner, false);
    await_end(&pair, &operation);
    assert_true(operation.is_done);
    struct tt_text lanes;
    tt_text_init(&lanes);
    tt_ucx_endpoint_lanes(pair.endpoint, &lanes);
    assert_non_null(strstr(tt_text_string(&lanes), "tcp/"));
    tt_text_fini(&lanes);
    close_pair(&pair);
}

/* An operation that is under way when its endpoint is closed is done, as failed, before `gone`. */
static void closing_ends_what_is_under_way(void **state) {
    (void)state;
    if (!library.major)
        skip();
    struct pair pair;
    struct operation operation;
    open_pair(&pair, "tcp");
    get(&pair, &operation, 0, 8);
    await_end(&pair, &operation);
    tt_ucx_hold(&pair.owner, true);
    get(&pair, &operation, 0, SIZE);
    tt_ucx_endpoint_close(pair.endpoint, on_gone, &pair.gone);
    for (int32_t i = 0; i < ENOUGH && pair.gone == 0; i++) {
        assert_true(operation.calls <= 1);
        turn(&pair);
    }
    assert_int_equal(pair.gone, 1);
    assert_int_equal(operation.calls, 1);
    assert_false(operation.is_done);
    tt_ucx_key_free(&pair.user, pair.key);
    tt_ucx_region_free(&pair.user, &pair.ours);
    tt_ucx_region_free(&pair.owner, &pair.theirs);
    tt_ucx_close(&pair.user);
    tt_ucx_close(&pair.owner);
}

static void errors_say_what_is_missing(void **state) {
    (void)state;
    struct tt_ucx_library other;
    assert_int_equal(tt_ucx_library_load("/nonexistent/libucp.so", &other, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "/nonexistent/libucp.so"));
    assert_non_null(strstr(why.text, "libucx0"));
    assert_int_equal(tt_ucx_library_load("libm.so.6", &other, &why), TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "UCX has no ucp_"));
    if (!library.major)
        return;
    struct tt_ucx none;
    setenv("UCX_TLS", "nonexistent", 1);
    assert_int_equal(tt_ucx_open(&none, &library, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "UCX cannot start"));
}

static void pointers_and_results(void **state) {
    (void)state;
    int request;
    assert_int_equal(tt_ucx_result(NULL), TT_UCX_OK);
    assert_int_equal(tt_ucx_result((const void *)(intptr_t)-4), TT_UCX_NO_MEMORY);
    assert_int_equal(tt_ucx_result((const void *)(intptr_t)TT_UCX_LOWEST_STATUS),
                     TT_UCX_LOWEST_STATUS);
    assert_int_equal(tt_ucx_result(&request), TT_UCX_IN_PROGRESS);
}

static struct tt_ucx_endpoint lonely;

static void check_endpoint(int32_t under_way, bool is_closing) {
    struct tt_ucx ucx = {.fd = -1};
    tt_list_init(&ucx.endpoints);
    tt_list_init(&ucx.ended);
    lonely =
        (struct tt_ucx_endpoint){.ucx = &ucx, .under_way = under_way, .is_closing = is_closing};
    tt_list_push_back(&ucx.endpoints, &lonely.node);
    tt_ucx_check(&ucx);
}

static void a_sound_endpoint(void) { check_endpoint(0, false); }
static void fewer_than_none_under_way(void) { check_endpoint(-1, false); }
static void a_close_without_notice(void) { check_endpoint(1, true); }

static void broken_books_are_seen(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(fewer_than_none_under_way, "endpoint->under_way >= 0"),
        BREACH(a_close_without_notice, "endpoint->gone"),
    };
    assert_holds(a_sound_endpoint);
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(int argc, char **argv) {
    (void)argc;
    find_unpacked_ucx(argv);
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    if (!has_ucx(&library))
        library.major = 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_books_are_seen), /* first: before any thread */
        cmocka_unit_test(bytes_move),
        cmocka_unit_test(shared_memory_is_one_sided),
        cmocka_unit_test(tcp_is_emulated),
        cmocka_unit_test(closing_ends_what_is_under_way),
        cmocka_unit_test(errors_say_what_is_missing),
        cmocka_unit_test(pointers_and_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
