/* A version moves only as the controller moves it, and its members agree with its state. */
#include "control/model_entry.h"

#include "serve/model_stats.h"
#include "serve/served_model_state.h"
#include "unit/breach.h"

#include <stdlib.h>
#include <string.h>

static char number[] = "3";
static struct tt_model_stats stats;
static struct tt_served_model served = {.version = number};

static const enum tt_model_state all[] = {TT_MODEL_KNOWN, TT_MODEL_LOADING, TT_MODEL_READY,
                                          TT_MODEL_UNLOADING, TT_MODEL_UNAVAILABLE};
enum { STATES = sizeof(all) / sizeof(all[0]) };

/* A version in the state, with the members that belong to it. */
static struct tt_version_entry version_in(enum tt_model_state state) {
    struct tt_version_entry version = {.number = "3", .state = state, .stats = &stats};
    version.model = state == TT_MODEL_READY ? &served : NULL;
    version.leaving_count = state == TT_MODEL_UNLOADING;
    return version;
}

static enum tt_model_state from, to;
static void move(void) {
    struct tt_version_entry version = version_in(to);
    version.state = from;
    tt_version_entry_set(&version, to, "");
    if (version.state != to)
        _exit(3);
}

static void only_legal_moves_go_through(void **state) {
    (void)state;
    static const bool legal[STATES][STATES] = {
        [TT_MODEL_KNOWN] =
            {[TT_MODEL_LOADING] = true, [TT_MODEL_READY] = true, [TT_MODEL_UNAVAILABLE] = true},
        [TT_MODEL_LOADING] = {false, true, true, true, true},
        /* UNAVAILABLE: the watchdog gave a batch of it up. */
        [TT_MODEL_READY] =
            {[TT_MODEL_READY] = true, [TT_MODEL_UNLOADING] = true, [TT_MODEL_UNAVAILABLE] = true},
        [TT_MODEL_UNLOADING] = {false, true, true, true, true},
        [TT_MODEL_UNAVAILABLE] = {false, true, true, true, true},
    };
    for (int i = 0; i < STATES; i++)
        for (int k = 0; k < STATES; k++) {
            char name[64];
            from = all[i];
            to = all[k];
            snprintf(name, sizeof(name), "from %d to %d", i, k);
            if (legal[i][k])
                assert_holds(move);
            else
                assert_breaks(move, name, "may_move(self->state, state)");
        }
}

/* ---- members that do not belong to the state ---- */

static void ready_without_a_model(void) {
    struct tt_version_entry version = version_in(TT_MODEL_LOADING);
    tt_version_entry_set(&version, TT_MODEL_READY, "");
}
static void unloading_with_its_model(void) {
    struct tt_version_entry version = version_in(TT_MODEL_READY);
    version.leaving_count = 1;
    tt_version_entry_set(&version, TT_MODEL_UNLOADING, "");
}
static void unloading_with_nothing_left(void) {
    struct tt_version_entry version = version_in(TT_MODEL_UNLOADING);
    version.leaving_count = 0;
    tt_version_entry_set(&version, TT_MODEL_UNLOADING, "");
}
static void the_model_of_another_version(void) {
    struct tt_version_entry version = version_in(TT_MODEL_READY);
    version.number[0] = '4';
    tt_version_entry_set(&version, TT_MODEL_READY, "");
}

/* ---- lists ---- */

static struct tt_model_entry *two_models(void) {
    struct tt_model_entry *list = NULL;
    static const char *const names[] = {"b", "a"};
    for (int i = 0; i < 2; i++) {
        struct tt_model_entry *model = tt_model_entry_get(&list, names[i]);
        for (int v = 1; v <= 2; v++) {
            char text[2] = {(char)('0' + v), '\0'};
            struct tt_version_entry *version = model ? tt_version_entry_get(model, text) : NULL;
            if (!version)
                _exit(3);
            tt_version_entry_set(version, TT_MODEL_LOADING, "");
        }
    }
    return list;
}
static void nothing_wrong(void) {
    struct tt_model_entry *list = two_models();
    list->versions->leaving_count = 2;
    tt_model_entries_check(list, 2);
}
static void models_out_of_order(void) {
    struct tt_model_entry *list = two_models();
    list->name[0] = 'c';
    tt_model_entries_check(list, 0);
}
static void a_version_twice(void) {
    struct tt_model_entry *list = two_models();
    list->versions->number[0] = list->versions->next->number[0];
    tt_model_entries_check(list, 0);
}
static void a_leaving_model_too_many(void) {
    struct tt_model_entry *list = two_models();
    tt_model_entries_check(list, 1);
}
static void freed_while_it_serves(void) {
    struct tt_model_entry *list = two_models();
    list->versions->model = &served;
    tt_model_entries_free(list);
}

static void broken_entries_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(ready_without_a_model, "(self->model != NULL) == (self->state == TT_MODEL_READY)"),
        BREACH(unloading_with_its_model,
               "(self->model != NULL) == (self->state == TT_MODEL_READY)"),
        BREACH(unloading_with_nothing_left, "self->leaving_count > 0"),
        BREACH(the_model_of_another_version, "strcmp(self->model->version, self->number) == 0"),
        BREACH(models_out_of_order, "strcmp(model->name, model->next->name) < 0"),
        BREACH(a_version_twice, "strcmp(v->number, other->number) != 0"),
        BREACH(a_leaving_model_too_many, "leaving == leaving_count"),
        BREACH(freed_while_it_serves, "version->model == NULL"),
    };
    assert_holds(nothing_wrong);
    assert_all_break(breaches, TT_COUNT(breaches));
}

/* ---- what is forgotten ---- */

static struct tt_model_entry *loaded(struct tt_model_entry **list, const char *name,
                                     int64_t load_number, enum tt_model_state state) {
    struct tt_model_entry *entry = tt_model_entry_get(list, name);
    assert_non_null(entry);
    struct tt_version_entry *version = tt_version_entry_get(entry, "1");
    assert_non_null(version);
    entry->load_number = load_number;
    version->state = state;
    version->model = state == TT_MODEL_READY ? &served : NULL;
    version->leaving_count = state == TT_MODEL_UNLOADING;
    return entry;
}

static bool knows(const struct tt_model_entry *list, const char *name) {
    while (list && strcmp(list->name, name) != 0)
        list = list->next;
    return list != NULL;
}

static void the_oldest_that_do_not_serve_are_forgotten(void **state) {
    (void)state;
    struct tt_model_entry *list = NULL;
    loaded(&list, "serves", 1, TT_MODEL_READY);
    loaded(&list, "leaves", 2, TT_MODEL_UNLOADING);
    loaded(&list, "comes", 3, TT_MODEL_LOADING);
    loaded(&list, "on_disk", 4, TT_MODEL_UNAVAILABLE)->is_on_disk = true;
    loaded(&list, "newest", 9, TT_MODEL_UNAVAILABLE);
    loaded(&list, "oldest", 5, TT_MODEL_UNAVAILABLE);
    loaded(&list, "middle", 7, TT_MODEL_UNAVAILABLE);
    assert_int_equal(tt_model_entries_forget(&list, 3), 0);
    assert_int_equal(tt_model_entries_forget(&list, 2), 1);
    assert_false(knows(list, "oldest"));
    assert_int_equal(tt_model_entries_forget(&list, 1), 1);
    assert_false(knows(list, "middle"));
    assert_int_equal(tt_model_entries_forget(&list, 0), 1);
    assert_false(knows(list, "newest"));
    assert_int_equal(tt_model_entries_forget(&list, 0), 0);
    static const char *const kept[] = {"serves", "leaves", "comes", "on_disk"};
    for (size_t i = 0; i < TT_COUNT(kept); i++)
        assert_true(knows(list, kept[i]));
    for (struct tt_model_entry *entry = list; entry; entry = entry->next)
        entry->versions->model = NULL;
    tt_model_entries_free(list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_legal_moves_go_through),
        cmocka_unit_test(broken_entries_are_caught),
        cmocka_unit_test(the_oldest_that_do_not_serve_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
