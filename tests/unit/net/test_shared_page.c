/* Pages that many ask for: one is written at a time, and all that waited at its beginning share it.
 */
/* threaded */
#include "net/sockets/shared_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ASKERS = 8 };

struct asker {
    struct tt_page_asker asker;
    struct tt_shared_page *page; /* a reference */
    enum tt_err err;
    int answered;
};

static struct world {
    uv_loop_t loop;
    struct tt_page_writer writer;
    struct tt_loop_turn *turn;
    struct asker askers[ASKERS];
    int begun, ended;
    int64_t key; /* of the latest page */
    enum tt_err begin_err, write_err;
    bool asks_again; /* the first asker that is answered */
} world;

static enum tt_err begin(void *context, int64_t key, struct tt_error *why) {
    assert_ptr_equal(context, &world);
    world.begun++;
    world.key = key;
    return world.begin_err ? tt_fail(world.begin_err, why, "not now") : TT_OK;
}

static enum tt_err write_page(void *context, struct tt_text *out, struct tt_error *why) {
    const struct world *self = context;
    tt_text_printf(out, "page %d: %d", self->begun, (int)self->key);
    return self->write_err ? tt_fail(self->write_err, why, "no page") : TT_OK;
}

static void end(void *context) { ((struct world *)context)->ended++; }

static void on_page(struct tt_page_asker *given, struct tt_shared_page *page, enum tt_err err,
                    const struct tt_error *why) {
    struct asker *self = TT_CONTAINER_OF(given, struct asker, asker);
    self->answered++;
    self->err = err;
    if (err)
        assert_true(*why->text != '\0');
    else
        self->page = tt_shared_page_ref(page);
    if (world.asks_again) {
        world.asks_again = false;
        tt_page_writer_ask(&world.writer, &world.loop, given);
    }
}

static void ask(int i) {
    world.askers[i].asker.done = on_page;
    tt_page_writer_ask(&world.writer, &world.loop, &world.askers[i].asker);
}

static void open_world(void) {
    static const struct tt_page_kind kind = {begin, write_page, end};
    world = (struct world){0};
    assert_int_equal(uv_loop_init(&world.loop), 0);
    tt_page_writer_init(&world.writer, &kind, &world, world.turn);
}

static void close_world(void) {
    for (int i = 0; i < ASKERS; i++)
        tt_shared_page_unref(world.askers[i].page);
    assert_int_equal(uv_loop_close(&world.loop), 0);
}

static void expect_page(int i, const char *text) {
    assert_int_equal(world.askers[i].err, TT_OK);
    assert_non_null(world.askers[i].page);
    assert_string_equal(tt_text_string(&world.askers[i].page->text), text);
}

/* The first one gets a page of its own, the others the next one. */
static void test_shared(void **state) {
    (void)state;
    open_world();
    for (int i = 0; i < ASKERS; i++)
        ask(i);
    for (int i = 0; i < ASKERS; i++)
        assert_int_equal(world.askers[i].answered, 0); /* later, always */
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.begun, 2);
    assert_int_equal(world.ended, 2);
    expect_page(0, "page 1: 0");
    for (int i = 1; i < ASKERS; i++) {
        expect_page(i, "page 2: 0");
        assert_ptr_equal(world.askers[i].page, world.askers[1].page);
        assert_int_equal(world.askers[i].answered, 1);
    }
    close_world();
}

/* Those that want different pages do not share one, and the one that has waited the longest is
 * next. */
static void test_keys(void **state) {
    (void)state;
    open_world();
    for (int i = 0; i < ASKERS; i++) {
        world.askers[i].asker.key = i % 3;
        ask(i);
    }
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.begun, 4);
    expect_page(0, "page 1: 0");
    for (int i = 1; i < ASKERS; i++) {
        char text[32];
        snprintf(text, sizeof(text), "page %d: %d", i % 3 ? i % 3 + 1 : 4, i % 3);
        expect_page(i, text);
    }
    close_world();
}

/* One that asks from within its answer gets a page that began after that. */
static void test_asks_again(void **state) {
    (void)state;
    open_world();
    world.asks_again = true;
    ask(0);
    while (world.askers[0].answered == 0)
        uv_run(&world.loop, UV_RUN_ONCE);
    tt_shared_page_unref(world.askers[0].page);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.askers[0].answered, 2);
    expect_page(0, "page 2: 0");
    close_world();
}

static void on_wake(uv_async_t *wake) { tt_loop_turn_go_on(wake->data); }

static void wake_loop(void *context) { uv_async_send(context); }

/* Those that waited for one page are called in several turns of the loop; one that asks meanwhile
 * gets the next page. */
static void test_called_in_turns(void **state) {
    (void)state;
    static struct tt_loop_turn turn;
    uv_async_t wake;
    open_world();
    assert_int_equal(uv_async_init(&world.loop, &wake, on_wake), 0);
    wake.data = &turn;
    tt_loop_turn_init(&turn, wake_loop, &wake);
    turn.length_ns = 0; /* over at once */
    world.writer.turn = &turn;
    for (int i = 0; i < ASKERS - 1; i++)
        ask(i);
    int turns = 0;
    for (int last = 0; world.askers[ASKERS - 2].answered == 0;) {
        uv_run(&world.loop, UV_RUN_ONCE);
        int answered = 0;
        for (int i = 0; i < ASKERS; i++)
            answered += world.askers[i].answered;
        assert_in_range(answered - last, 0, 2); /* one as its page is ready, one more by a wake */
        turns += answered > last;
        if (world.askers[2].answered && !world.askers[ASKERS - 1].asker.done)
            ask(ASKERS - 1);
        last = answered;
    }
    assert_true(turns >= ASKERS / 2);
    while (world.askers[ASKERS - 1].answered == 0)
        uv_run(&world.loop, UV_RUN_ONCE);
    expect_page(ASKERS - 2, "page 2: 0");
    expect_page(ASKERS - 1, "page 3: 0");
    uv_close((uv_handle_t *)&wake, NULL);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    close_world();
}

static void test_errors(void **state) {
    (void)state;
    open_world();
    world.begin_err = TT_ERR_NO_MEMORY;
    ask(0);
    assert_int_equal(world.askers[0].answered, 0);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.askers[0].err, TT_ERR_NO_MEMORY);
    assert_int_equal(world.ended, 0); /* nothing was begun */
    world.begin_err = TT_OK;
    world.write_err = TT_ERR_INTERNAL;
    ask(1);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.askers[1].err, TT_ERR_INTERNAL);
    assert_int_equal(world.ended, 1);
    world.write_err = TT_OK;
    ask(2);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    expect_page(2, "page 3: 0");
    close_world();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),     cmocka_unit_test(test_keys),
        cmocka_unit_test(test_asks_again), cmocka_unit_test(test_called_in_turns),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
