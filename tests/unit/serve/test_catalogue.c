/* A catalogue is in order when it is sealed, and one that is not is caught. */
#include "serve/catalogue.h"

#include "serve/model_stats.h"
#include "unit/breach.h"

#include <stdlib.h>

static struct tt_catalogue *sealed(void) {
    static const char *const entries[][2] = {{"b", "2"}, {"a", "1"}, {"b", "10"}};
    struct tt_catalogue *catalogue = tt_catalogue_new(3);
    if (!catalogue)
        _exit(3);
    for (size_t i = 0; i < TT_COUNT(entries); i++) {
        struct tt_catalogue_entry entry = {.name = (char *)entries[i][0],
                                           .version = (char *)entries[i][1],
                                           .state = TT_MODEL_LOADING};
        if (tt_catalogue_add(catalogue, &entry))
            _exit(3);
    }
    tt_catalogue_seal(catalogue);
    return catalogue;
}

static void the_highest_version_comes_first(void **state) {
    (void)state;
    struct tt_catalogue *catalogue = sealed();
    int32_t count;
    const struct tt_catalogue_entry *found = tt_catalogue_find(catalogue, "b", &count);
    assert_int_equal(count, 2);
    assert_string_equal(found->version, "10");
    assert_null(tt_catalogue_find(catalogue, "c", &count));
    tt_catalogue_unref(catalogue);
}

static void changed_behind_the_seal(void) {
    struct tt_catalogue *catalogue = sealed();
    catalogue->entries[0].name[0] = 'z';
    tt_catalogue_check(catalogue);
}
static void one_version_twice(void) {
    struct tt_catalogue *catalogue = sealed();
    struct tt_catalogue_entry *versions = &catalogue->entries[1];
    free(versions[1].version);
    versions[1].version = versions[0].version;
    tt_catalogue_check(catalogue);
}
static void ready_without_a_model(void) {
    struct tt_catalogue *catalogue = sealed();
    catalogue->entries[0].state = TT_MODEL_READY;
    tt_catalogue_check(catalogue);
}
static void one_entry_too_many(void) {
    struct tt_catalogue *catalogue = sealed();
    struct tt_catalogue_entry entry = {.name = (char[]){"c"}, .version = (char[]){"1"}};
    if (tt_catalogue_add(catalogue, &entry))
        _exit(3);
}
static void one_reference_too_few(void) {
    struct tt_catalogue *catalogue = sealed();
    tt_refcount_init(&catalogue->users, 0);
    tt_catalogue_unref(catalogue);
}

static void broken_catalogues_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(changed_behind_the_seal, "compare(entry - 1, entry) < 0"),
        BREACH(one_version_twice, "compare(entry - 1, entry) < 0"),
        BREACH(ready_without_a_model, "(entry->model != NULL) == (entry->state == TT_MODEL_READY)"),
        BREACH(one_entry_too_many, "self->count < self->capacity"),
        BREACH(one_reference_too_few, "before > 0"),
    };
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_version_comes_first),
        cmocka_unit_test(broken_catalogues_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
