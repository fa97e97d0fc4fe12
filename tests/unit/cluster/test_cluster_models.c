/* Loading and unloading in a cluster: one command at a time, backends first or last, errors undone,
 * and the same set on all nodes whatever fails. */
#include "base/prng.h"
#include "unit/breach.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

enum { PRIMARY = 0, SPARE = 1, FRONTEND = 2, OTHER_FRONTEND = 3, BACKEND = 4, WORLDS = 40 };
enum { FAULTS = 3 };

/* ---- the primary's side ---- */

struct set {
    struct virtual_world world;
    struct tt_outbox outbox;
    struct tt_model_set models;
};

static void set_init(struct set *self) {
    *self = (struct set){0};
    virtual_world_init(&self->world);
    assert_int_equal(
        tt_model_set_init(&self->models, &self->world.settings, PRIMARY, &self->outbox), TT_OK);
    tt_model_set_lead(&self->models, tt_epoch(1, PRIMARY));
    for (uint16_t i = SPARE; i < WORLD_NODES; i++)
        tt_model_set_join(&self->models, i);
    tt_model_set_check(&self->models);
    tt_outbox_clear(&self->outbox);
}

static void set_fini(struct set *self) {
    tt_model_set_check(&self->models);
    tt_model_set_fini(&self->models);
    tt_outbox_fini(&self->outbox);
    virtual_world_fini(&self->world);
}

static void wish(struct set *self, uint64_t number, uint16_t model, bool is_load) {
    assert_true(tt_model_set_wish(
        &self->models, FRONTEND,
        &(struct tt_frame_record){.id = number, .model = model, .code = is_load}));
    tt_model_set_check(&self->models);
}

/* Nodes first to last answer what was sent last. */
static void answer(struct set *self, uint16_t first, uint16_t last, uint16_t failure) {
    uint64_t version = self->models.version;
    uint16_t model = self->models.wishes[self->models.first_wish].model;
    const struct tt_frame_record records[] = {
        {.id = version},
        /* of a model that the wish is not about */
        {.id = version, .model = (uint16_t)(model + 1), .code = (uint16_t)-TT_ERR_BUSY},
        {.id = version, .model = model, .code = failure}};
    const struct tt_frame frame = {
        .type = TT_FRAME_SERVED, .count = failure ? 3 : 2, .records = records};
    for (uint16_t i = first; i <= last; i++)
        assert_true(tt_model_set_served(&self->models, i, &frame));
    tt_model_set_check(&self->models);
}

static int32_t sent_to(const struct set *self, uint16_t to, enum tt_frame_type type) {
    int32_t count = 0;
    for (int64_t i = 0; i < self->outbox.frame_count; i++)
        count += self->outbox.frames[i].to == to && self->outbox.frames[i].type == type;
    return count;
}

/* The result of the wish that was answered last; -1: none was. */
static int32_t wished(const struct set *self) {
    for (int64_t i = self->outbox.frame_count - 1; i >= 0; i--)
        if (self->outbox.frames[i].type == TT_FRAME_WISHED)
            return self->outbox.records[self->outbox.frames[i].first].code;
    return -1;
}

static void unload(struct set *self, uint16_t model) {
    wish(self, 1, model, false);
    answer(self, SPARE, OTHER_FRONTEND, 0);
    answer(self, BACKEND, WORLD_NODES - 1, 0);
    assert_int_equal(wished(self), 0);
    tt_outbox_clear(&self->outbox);
}

static void backends_are_first_and_last(void **state) {
    (void)state;
    struct set set;
    set_init(&set);
    wish(&set, 1, 0, false);
    assert_int_equal(sent_to(&set, FRONTEND, TT_FRAME_SERVE), 1);
    assert_int_equal(sent_to(&set, SPARE, TT_FRAME_SERVE), 1);
    assert_int_equal(sent_to(&set, BACKEND, TT_FRAME_SERVE), 0);
    assert_true(tt_model_set_admits(&set.models, 0)); /* frontends end what they have */
    answer(&set, SPARE, OTHER_FRONTEND, 0);
    assert_int_equal(sent_to(&set, BACKEND, TT_FRAME_SERVE), 1);
    assert_false(tt_model_set_admits(&set.models, 0));
    assert_int_equal(wished(&set), -1);
    answer(&set, BACKEND, WORLD_NODES - 1, 0);
    assert_int_equal(wished(&set), 0);
    tt_outbox_clear(&set.outbox);
    wish(&set, 2, 0, true);
    assert_int_equal(sent_to(&set, FRONTEND, TT_FRAME_SERVE), 0);
    answer(&set, BACKEND, WORLD_NODES - 2, 0);
    assert_int_equal(sent_to(&set, FRONTEND, TT_FRAME_SERVE), 0);
    answer(&set, WORLD_NODES - 1, WORLD_NODES - 1, 0);
    assert_int_equal(sent_to(&set, FRONTEND, TT_FRAME_SERVE), 1);
    answer(&set, SPARE, OTHER_FRONTEND, 0);
    assert_int_equal(wished(&set), 0);
    assert_true(set.models.front[0].serves && set.models.back[0].serves);
    set_fini(&set);
}

static void a_load_that_fails_is_undone(void **state) {
    (void)state;
    struct set set;
    set_init(&set);
    unload(&set, 1);
    wish(&set, 2, 1, true);
    answer(&set, BACKEND, WORLD_NODES - 2, 0);
    tt_outbox_clear(&set.outbox);
    answer(&set, WORLD_NODES - 1, WORLD_NODES - 1, (uint16_t)-TT_ERR_IO);
    assert_int_equal(wished(&set), -TT_ERR_IO);
    assert_int_equal(sent_to(&set, BACKEND, TT_FRAME_SERVE), 1);
    assert_int_equal(sent_to(&set, FRONTEND, TT_FRAME_SERVE), 0); /* they never heard of it */
    assert_false(set.models.back[1].serves);
    tt_outbox_clear(&set.outbox);
    wish(&set, 3, 1, true); /* fails at a frontend */
    answer(&set, BACKEND, WORLD_NODES - 1, 0);
    answer(&set, SPARE, FRONTEND, 0);
    answer(&set, OTHER_FRONTEND, OTHER_FRONTEND, (uint16_t)-TT_ERR_INVALID);
    assert_int_equal(wished(&set), -TT_ERR_INVALID);
    assert_false(set.models.front[1].serves || set.models.back[1].serves);
    tt_outbox_clear(&set.outbox);
    wish(&set, 4, 0, true); /* loads again what serves: that goes on if the load fails */
    answer(&set, BACKEND, WORLD_NODES - 1, (uint16_t)-TT_ERR_IO);
    assert_int_equal(wished(&set), -TT_ERR_IO);
    assert_true(set.models.front[0].serves && set.models.back[0].serves);
    set_fini(&set);
}

static void nodes_that_go_are_not_awaited(void **state) {
    (void)state;
    struct set set;
    set_init(&set);
    wish(&set, 1, 0, false);
    wish(&set, 2, 1, false); /* waits for the first */
    answer(&set, SPARE, FRONTEND, 0);
    tt_model_set_part(&set.models, OTHER_FRONTEND);
    for (uint16_t i = BACKEND; i < WORLD_NODES; i++) {
        assert_int_equal(wished(&set), -1);
        tt_model_set_part(&set.models, i);
    }
    assert_int_equal(wished(&set), 0);
    assert_int_equal(set.models.wish_count, 1);
    tt_outbox_clear(&set.outbox);
    answer(&set, SPARE, FRONTEND, 0);
    assert_int_equal(wished(&set), 0);
    wish(&set, 3, 0, true); /* no backend is there that could load it */
    assert_int_equal(wished(&set), -TT_ERR_UNAVAILABLE);
    tt_outbox_clear(&set.outbox);
    tt_model_set_join(&set.models, BACKEND); /* hears what it must not serve */
    assert_int_equal(sent_to(&set, BACKEND, TT_FRAME_SERVE), 1);
    assert_int_equal(set.outbox.records[0].code, 0);
    assert_int_equal(set.outbox.records[2].code, 1);
    set_fini(&set);
}

static void too_many_wishes_are_refused(void **state) {
    (void)state;
    struct set set;
    set_init(&set);
    for (uint64_t i = 0; i < TT_MODEL_SET_WISHES; i++)
        wish(&set, i, 0, i % 2 == 0);
    assert_int_equal(wished(&set), -1);
    wish(&set, 99, 0, true);
    assert_int_equal(wished(&set), -TT_ERR_BUSY);
    struct tt_frame_record bad = {.id = 1, .model = WORLD_MODELS};
    assert_false(tt_model_set_wish(&set.models, FRONTEND, &bad));
    bad = (struct tt_frame_record){.id = 1, .code = 2};
    assert_false(tt_model_set_wish(&set.models, FRONTEND, &bad));
    bad.code = 1;
    assert_false(tt_model_set_wish(&set.models, BACKEND, &bad));
    set_fini(&set);
}

static void a_spare_completes_an_unload(void **state) {
    (void)state;
    struct set set, spare;
    set_init(&set);
    set_init(&spare);
    tt_model_set_yield(&spare.models);
    wish(&set, 1, 2, false);
    for (int64_t i = 0; i < set.outbox.frame_count; i++)
        if (set.outbox.frames[i].to == SPARE) {
            struct tt_frame frame = tt_outbox_frame(&set.outbox, i);
            assert_true(tt_model_set_follow(&spare.models, &frame));
        }
    tt_model_set_lead(&spare.models, tt_epoch(2, PRIMARY));
    tt_outbox_clear(&spare.outbox);
    tt_model_set_join(&spare.models, BACKEND);
    assert_int_equal(spare.outbox.records[1].code, 1);
    assert_int_equal(spare.outbox.records[2].code, 0);
    set_fini(&set);
    set_fini(&spare);
}

static void serve_what_no_backend_has(void) {
    struct set set;
    set_init(&set);
    set.models.back[1].serves = false;
    tt_model_set_check(&set.models);
}

static void await_no_node(void) {
    struct set set;
    set_init(&set);
    wish(&set, 1, 0, true);
    set.models.awaited[BACKEND] = 0;
    tt_model_set_check(&set.models);
}

static void broken_sets_are_found(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(serve_what_no_backend_has, "front[i].serves"),
        BREACH(await_no_node, "awaited_count"),
    };
    assert_all_break(breaches, sizeof(breaches) / sizeof(*breaches));
}

/* ---- a node's side ---- */

struct acts {
    int32_t count, model;
    bool is_load;
};

static void on_act(void *context, int32_t model, bool is_load) {
    struct acts *self = context;
    self->count++;
    self->model = model;
    self->is_load = is_load;
}

static void serve(struct tt_model_duty *duty, uint64_t version, const char *states,
                  uint16_t generation) {
    struct tt_frame_record records[WORLD_MODELS];
    for (uint16_t i = 0; i < WORLD_MODELS; i++)
        records[i] = (struct tt_frame_record){
            .id = version, .model = i, .attempt = generation, .code = states[i] == '1'};
    struct tt_frame frame = {
        .type = TT_FRAME_SERVE, .count = WORLD_MODELS, .epoch = 1, .records = records};
    assert_true(tt_model_duty_receive(duty, PRIMARY, &frame));
    tt_model_duty_check(duty);
}

static void a_node_does_one_thing_at_a_time(void **state) {
    (void)state;
    struct tt_outbox outbox = {0};
    struct tt_model_duty duty;
    struct acts acts = {0};
    assert_int_equal(tt_model_duty_init(&duty, WORLD_MODELS, WORLD_MODELS, &outbox), TT_OK);
    duty.context = &acts;
    duty.act = on_act;
    serve(&duty, 1, "111", 5); /* it has just started: nothing to do */
    assert_int_equal(acts.count, 0);
    assert_int_equal(outbox.frame_count, 1);
    serve(&duty, 2, "001", 5);
    assert_int_equal(acts.count, 1);
    assert_false(acts.is_load);
    assert_false(tt_model_duty_serves(&duty, 0));
    serve(&duty, 3, "101", 5); /* another thought before it is done */
    tt_model_duty_acted(&duty, 0);
    assert_int_equal(acts.count, 2);
    assert_true(acts.is_load && acts.model == 0);
    tt_model_duty_acted(&duty, 0);
    assert_int_equal(outbox.frame_count, 1);
    tt_model_duty_acted(&duty, 0); /* model 1 is unloaded */
    assert_int_equal(outbox.frame_count, 2);
    assert_int_equal(outbox.records[1].id, 3); /* version 2 gets no answer */
    assert_int_equal(outbox.records[1].code, 0);
    serve(&duty, 4, "111", 5);
    tt_model_duty_acted(&duty, (uint16_t)-TT_ERR_IO);
    assert_int_equal(outbox.records[3].code, -TT_ERR_IO);
    assert_int_equal(outbox.records[3].model, 1);
    assert_true(tt_model_duty_is_done(&duty));
    assert_int_equal(acts.count, 4);
    serve(&duty, 5, "111", 5); /* the same again: it is not tried again */
    assert_int_equal(acts.count, 4);
    serve(&duty, 6, "101", 5);
    serve(&duty, 7, "111", 5);
    assert_int_equal(acts.count, 5);
    tt_model_duty_acted(&duty, 0);
    assert_true(tt_model_duty_serves(&duty, 1));
    tt_model_duty_check(&duty);
    tt_model_duty_fini(&duty);
    tt_outbox_fini(&outbox);
}

/* ---- a cluster ---- */

/* Clients load and unload under load, loads fail, nodes crash, freeze and are cut off. */
static void all_nodes_serve_the_same(void **state) {
    (void)state;
    struct virtual_world world;
    virtual_world_init(&world);
    int64_t wished = 0, unwished = 0, answered = 0, unserved = 0;
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 6);
        struct tt_fault faults[FAULTS];
        virtual_world_draw_faults(&prng, 100 * TT_MS, 80 * TT_MS, 300 * TT_MS, FAULTS, faults);
        struct tt_virtual_options options = virtual_world_options(&world, seed);
        options.until_at = 700 * TT_MS;
        options.faults = faults;
        options.fault_count = seed % 4 ? FAULTS : 0;
        options.loss_permille = 100;
        options.cancel_permille = 100;
        options.shared_permille = seed % 2 ? 500 : 0;
        options.wish_gap_ns = 30 * TT_MS;
        options.failure_permille = seed % 3 ? 100 : 0;
        struct tt_virtual_result result;
        struct tt_error why;
        assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
        if (result.violation[0])
            print_message("seed %d: %s\n", (int)seed, result.violation);
        assert_string_equal(result.violation, "");
        assert_true(result.wished + result.unwished <= result.wishes);
        if (options.fault_count == 0 && options.failure_permille == 0)
            assert_true(result.wished == result.wishes && result.wished > 0);
        wished += result.wished;
        unwished += result.unwished;
        answered += result.answered;
        unserved += result.unserved;
    }
    assert_true(wished > 0 && unwished > 0 && answered > 0);
    assert_true(unserved * 1000 < answered);
    virtual_world_fini(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backends_are_first_and_last),
        cmocka_unit_test(a_load_that_fails_is_undone),
        cmocka_unit_test(nodes_that_go_are_not_awaited),
        cmocka_unit_test(too_many_wishes_are_refused),
        cmocka_unit_test(a_spare_completes_an_unload),
        cmocka_unit_test(broken_sets_are_found),
        cmocka_unit_test(a_node_does_one_thing_at_a_time),
        cmocka_unit_test(all_nodes_serve_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
