/* The table of models of a node: models that peers give notice of, versions, models of one name
 * that differ, and what there is no room for. And the wishes of clients for models that are not in
 * it. */
#include "base/instant.h"
#include "fleet/fleet_models.h"
#include "fleet/model_notice.h"
#include "fleet/new_models.h"
#include "unit/breach.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 4, ROWS = 16 };

struct table {
    struct tt_fleet_models models;
    struct tt_profile *profile;
};

static void table_init(struct table *self) {
    struct tt_error why;
    *self = (struct table){
        .models = {.models = calloc(CAPACITY, sizeof(*self->models.models)),
                   .step_models = calloc(CAPACITY, sizeof(*self->models.step_models)),
                   .groups = calloc(CAPACITY, sizeof(*self->models.groups)),
                   .capacity = CAPACITY,
                   .max_rows = ROWS}};
    assert_non_null(self->models.models);
    assert_non_null(self->models.step_models);
    assert_non_null(self->models.groups);
    assert_int_equal(tt_profile_new_linear(TT_MS, TT_MS, ROWS, &self->profile, &why), TT_OK);
}

static void table_fini(struct table *self) {
    tt_fleet_models_check(&self->models);
    tt_fleet_models_fini(&self->models);
    tt_profile_free(self->profile);
}

static enum tt_err learn(struct table *self, const char *name, const char *version, uint64_t digest,
                         int32_t *out_number, struct tt_error *why) {
    struct tt_model_notice notice = {
        .digest = digest, .slo_ns = TT_S, .max_batch = ROWS, .profile = self->profile};
    snprintf(notice.name, sizeof(notice.name), "%s", name);
    snprintf(notice.version, sizeof(notice.version), "%s", version);
    enum tt_err err = tt_fleet_models_learn(&self->models, &notice, "n7", out_number, why);
    tt_fleet_models_check(&self->models);
    return err;
}

static int32_t learned(struct table *self, const char *name, const char *version, uint64_t digest) {
    int32_t number = -1;
    struct tt_error why;
    assert_int_equal(learn(self, name, version, digest, &number, &why), TT_OK);
    return number;
}

static void models_keep_their_numbers(void **state) {
    (void)state;
    struct table table;
    table_init(&table);
    assert_int_equal(learned(&table, "a", "1", 5), 0);
    assert_int_equal(learned(&table, "b", "1", 6), 1);
    assert_int_equal(learned(&table, "a", "2", 5), 2); /* a version that comes later */
    assert_int_equal(learned(&table, "a", "1", 5), 0); /* known */
    assert_int_equal(table.models.groups[2], 0);
    assert_int_equal(tt_fleet_models_group(&table.models, "a"), 0);
    assert_int_equal(tt_fleet_models_group(&table.models, "b"), 1);
    assert_int_equal(tt_fleet_models_group(&table.models, "c"), -1);
    assert_string_equal(table.models.models[1].origin, "n7");
    assert_int_equal(table.models.step_models[1]->max_batch, ROWS);
    table_fini(&table);
}

static void models_of_one_name_are_told_apart(void **state) {
    (void)state;
    struct table table;
    table_init(&table);
    int32_t first = learned(&table, "a", "1", 5), other = learned(&table, "a", "1", 6);
    assert_int_not_equal(first, other);
    assert_int_equal(tt_fleet_models_rival(&table.models, first), other);
    assert_int_equal(tt_fleet_models_rival(&table.models, other), first);
    assert_int_equal(tt_fleet_models_rival(&table.models, learned(&table, "b", "1", 5)), -1);
    /* A command is about the one that is loaded, else about the latest. */
    assert_int_equal(tt_fleet_models_group(&table.models, "a"), other);
    struct tt_model_notice notice;
    tt_fleet_models_notice(&table.models, first, &notice);
    assert_false(notice.is_served);
    assert_int_equal(notice.digest, 5);
    assert_int_equal(tt_fleet_models_pace(&table.models, first, &notice), 1000);
    struct tt_profile *slower;
    struct tt_error why;
    assert_int_equal(tt_profile_new_linear(TT_MS, 2 * TT_MS, ROWS, &slower, &why), TT_OK);
    notice.profile = slower;
    assert_int_equal(tt_fleet_models_pace(&table.models, first, &notice), 1500); /* of one row */
    tt_profile_free(slower);
    table_fini(&table);
}

/* Two backends, each slower in another place: the scheduler plans with the slower value of each. */
static void the_slowest_counts(void **state) {
    (void)state;
    struct table table;
    struct tt_error why;
    table_init(&table);
    int32_t number = learned(&table, "a", "1", 5);
    struct tt_fleet_model *model = &table.models.models[number];
    struct tt_model_notice notice;
    tt_fleet_models_notice(&table.models, number, &notice);
    tt_fleet_models_note_pace(&table.models, number, &notice);
    assert_null(model->slowest);
    const int64_t lines[2][2] = {{TT_MS / 2, 4 * TT_MS}, {2 * TT_MS, TT_MS / 2}}; /* alpha, beta */
    struct tt_profile *others[2];
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(
            tt_profile_new_linear(lines[i][0], lines[i][1], ROWS / (i + 1), &others[i], &why),
            TT_OK);
        notice.profile = others[i];
        tt_fleet_models_note_pace(&table.models, number, &notice);
        assert_true(tt_fleet_models_has_slower(&table.models));
        assert_int_equal(tt_profile_latency(model->profile, 1, 0), 2 * TT_MS); /* as before */
    }
    tt_fleet_models_adopt_slowest(&table.models);
    assert_false(tt_fleet_models_has_slower(&table.models));
    tt_profile_check(model->profile);
    for (int32_t b = 1; b <= ROWS; b++) { /* the second one knows half as many rows */
        int64_t most = 2 * TT_MS + (b - 1) * TT_MS, first = 4 * TT_MS + b * TT_MS / 2;
        int64_t second = TT_MS / 2 + (b < ROWS / 2 ? b : ROWS / 2) * 2 * TT_MS;
        most = first > most ? first : most;
        most = second > most ? second : most;
        assert_int_equal(tt_profile_latency(model->profile, b, 0), most);
    }
    for (int32_t i = 0; i < 2; i++) {
        notice.profile = others[i];
        assert_true(tt_fleet_models_pace(&table.models, number, &notice) <= 1000);
        tt_profile_free(others[i]);
    }
    table_fini(&table);
}

static void what_has_no_room_is_named(void **state) {
    (void)state;
    struct table table;
    struct tt_error why;
    int32_t number = 77;
    table_init(&table);
    for (uint64_t i = 0; i < CAPACITY; i++) {
        char name[] = {(char)('a' + (char)i), '\0'};
        learned(&table, name, "1", i);
    }
    assert_int_equal(learn(&table, "more", "1", 9, &number, &why), TT_ERR_BUSY);
    assert_non_null(strstr(why.text, "'more'"));
    assert_int_equal(learned(&table, "a", "1", 0), 0);
    table.models.max_rows = ROWS - 1;
    struct tt_model_notice notice = {
        .slo_ns = TT_S, .max_batch = ROWS, .name = "large", .version = "1"};
    notice.profile = table.profile;
    assert_int_equal(tt_fleet_models_learn(&table.models, &notice, "n7", &number, &why),
                     TT_ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "batches of 16 rows"));
    assert_int_equal(number, 77);
    table.models.max_rows = ROWS;
    table_fini(&table);
}

static void a_group_without_its_first(void) {
    struct table table;
    table_init(&table);
    learned(&table, "a", "1", 5);
    learned(&table, "a", "2", 5);
    table.models.groups[0] = 1;
    tt_fleet_models_check(&table.models);
}

static void broken_tables_are_found(void **state) {
    (void)state;
    static const struct breach breaches[] = {BREACH(a_group_without_its_first, "groups")};
    assert_all_break(breaches, sizeof(breaches) / sizeof(*breaches));
}

/* ---- wishes ---- */

struct wishes {
    struct table table;
    struct tt_new_models news;
    int32_t resolved, refused, group;
    enum tt_err err;
};

static void on_resolved(void *context, const struct tt_new_model_wish *wish, int32_t group) {
    struct wishes *self = context;
    assert_int_equal(wish->frontend, 3);
    self->resolved++;
    self->group = group;
}

static void on_refused(void *context, const struct tt_new_model_wish *wish, enum tt_err err,
                       const char *why) {
    struct wishes *self = context;
    assert_int_equal(wish->frontend, 3);
    assert_string_not_equal(why, "");
    self->refused++;
    self->err = err;
}

static bool serves(void *context, const char *name) {
    (void)context;
    return strcmp(name, "b") == 0;
}

static void wish(struct wishes *self, const char *name, bool is_load) {
    tt_new_models_wish(&self->news,
                       (struct tt_new_model_wish){.number = 1, .frontend = 3, .is_load = is_load},
                       (const uint8_t *)name, strlen(name));
}

static void wishes_get_numbers(void **state) {
    (void)state;
    struct wishes wishes = {.group = -1};
    table_init(&wishes.table);
    learned(&wishes.table, "a", "1", 5);
    learned(&wishes.table, "b", "1", 5);
    wishes.news = (struct tt_new_models){.models = &wishes.table.models,
                                         .context = &wishes,
                                         .serves = serves,
                                         .resolved = on_resolved,
                                         .refused = on_refused};
    wish(&wishes, "../b", true);
    assert_int_equal(wishes.err, TT_ERR_INVALID);
    wish(&wishes, "", true);
    assert_int_equal(wishes.refused, 2);
    for (int32_t i = 0; i < TT_NEW_MODELS_WISHES; i++)
        wish(&wishes, i % 2 ? "a" : "b", i % 2 == 0); /* a load of what serves, an unload */
    assert_int_equal(wishes.refused, 2);
    wish(&wishes, "a", false);
    assert_int_equal(wishes.refused, 3);
    assert_int_equal(wishes.err, TT_ERR_BUSY);
    tt_new_models_settle(&wishes.news); /* nothing has to be loaded here */
    assert_int_equal(wishes.resolved, TT_NEW_MODELS_WISHES);
    assert_int_equal(wishes.group, 0);
    wish(&wishes, "none", false);
    tt_new_models_settle(&wishes.news);
    assert_int_equal(wishes.err, TT_ERR_NOT_FOUND);
    table_fini(&wishes.table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_keep_their_numbers),
        cmocka_unit_test(models_of_one_name_are_told_apart),
        cmocka_unit_test(the_slowest_counts),
        cmocka_unit_test(what_has_no_room_is_named),
        cmocka_unit_test(broken_tables_are_found),
        cmocka_unit_test(wishes_get_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
