/* Plans in a cluster: both pools have what moves until the requests have moved, a plan is carried
 * out or dropped as a whole, and nothing is lost whatever fails. */
#include "base/prng.h"
#include "base/text.h"
#include "unit/breach.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

enum { PRIMARY = 0, SPARE = 1, FRONTEND = 2, BACKEND = 4, SECOND = 6, WORLDS = 40, FAULTS = 3 };
enum { MANY_MODELS = 50, MOVED = 5 };

/* Backends 4 and 5 are pool 0, 6 and 7 pool 1. Models 0 and 2 start in pool 0, model 1 in 1. */
static void world_init(struct virtual_world *self) {
    virtual_world_init(self);
    for (int32_t i = SECOND; i < WORLD_NODES; i++)
        self->nodes[i].pool = 1;
}

/* ---- the primary's side ---- */

struct set {
    struct virtual_world world;
    struct tt_outbox outbox;
    struct tt_model_set models;
    struct tt_placement_outcome outcome;
    int32_t outcomes;
};

static void on_outcome(void *context, const struct tt_placement_outcome *outcome) {
    struct set *self = context;
    self->outcome = *outcome;
    self->outcomes++;
}

static void set_init(struct set *self) {
    *self = (struct set){0};
    world_init(&self->world);
    assert_int_equal(
        tt_model_set_init(&self->models, &self->world.settings, PRIMARY, &self->outbox), TT_OK);
    self->models.context = self;
    self->models.placed = on_outcome;
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

static void answer(struct set *self, uint16_t first, uint16_t last) {
    for (uint16_t i = first; i <= last; i++) {
        const struct tt_frame_record record = {.id = self->models.version};
        const struct tt_frame frame = {.type = TT_FRAME_SERVED, .count = 1, .records = &record};
        assert_true(tt_model_set_served(&self->models, i, &frame));
    }
    tt_model_set_check(&self->models);
}

/* What the node got last for the model: -1: nothing. */
static int32_t sent(const struct set *self, uint16_t to, uint16_t model) {
    int32_t code = -1;
    for (int64_t i = 0; i < self->outbox.frame_count; i++)
        if (self->outbox.frames[i].to == to && self->outbox.frames[i].type == TT_FRAME_SERVE)
            code = self->outbox.records[self->outbox.frames[i].first + model].code;
    return code;
}

static const uint16_t swapped[WORLD_MODELS] = {1, 0, 0};

static void begin(struct set *self) {
    struct tt_error why;
    assert_int_equal(tt_model_set_place(&self->models, swapped, &why), TT_OK);
    assert_int_equal(self->models.placement.stage, TT_PLACEMENT_RECORDING);
    tt_model_set_check(&self->models);
    tt_model_set_recorded(&self->models);
    tt_model_set_check(&self->models);
}

static void models_are_dealt_by_devices(void **state) {
    (void)state;
    struct virtual_world world;
    world_init(&world);
    struct tt_placement placement;
    assert_int_equal(tt_placement_init(&placement, &world.settings), TT_OK);
    assert_int_equal(placement.homes[0], 0);
    assert_int_equal(placement.homes[1], 1);
    assert_int_equal(placement.homes[2], 0);
    tt_placement_fini(&placement);
    for (int32_t i = SECOND; i < WORLD_NODES; i++)
        world.nodes[i].devices = 8; /* four times as many */
    const uint16_t groups[WORLD_MODELS] = {0, 0, 2};
    world.settings.groups = groups;
    assert_int_equal(tt_placement_init(&placement, &world.settings), TT_OK);
    assert_int_equal(placement.homes[0], 1);
    assert_int_equal(placement.homes[1], 1); /* a version of model 0 */
    assert_int_equal(placement.homes[2], 1);
    tt_placement_check(&placement);
    tt_placement_fini(&placement);
    virtual_world_fini(&world);
}

static void a_plan_goes_through_its_stages(void **state) {
    (void)state;
    struct set set;
    set_init(&set);
    const struct tt_placement *placement = &set.models.placement;
    begin(&set);
    assert_int_equal(sent(&set, BACKEND, 1), 1); /* gains model 1, keeps 0 */
    assert_int_equal(sent(&set, BACKEND, 0), 1);
    assert_int_equal(sent(&set, SECOND, 0), 1);
    assert_int_equal(sent(&set, SECOND, 2), 0);
    assert_int_equal(sent(&set, SPARE, 0), -1);
    answer(&set, BACKEND, WORLD_NODES - 2);
    assert_int_equal(placement->stage, TT_PLACEMENT_LOADING);
    assert_int_equal(tt_model_set_awaited(&set.models), WORLD_NODES - 1);
    answer(&set, WORLD_NODES - 1, WORLD_NODES - 1);
    assert_int_equal(placement->stage, TT_PLACEMENT_NOTIFYING);
    assert_int_equal(placement->homes[0], 0);
    assert_int_equal(sent(&set, SPARE, 0), 1);
    answer(&set, SPARE, SPARE);
    assert_int_equal(placement->stage, TT_PLACEMENT_DRAINING);
    assert_int_equal(placement->homes[0], 1);
    assert_int_equal(sent(&set, BACKEND, 0), 1); /* it may still run what it was granted */
    tt_outbox_clear(&set.outbox);
    tt_model_set_drained(&set.models);
    assert_int_equal(placement->stage, TT_PLACEMENT_UNLOADING);
    assert_int_equal(sent(&set, BACKEND, 0), 0);
    assert_int_equal(sent(&set, BACKEND, 1), 1);
    assert_int_equal(sent(&set, SECOND, 1), 0);
    assert_int_equal(set.outcomes, 0);
    answer(&set, BACKEND, WORLD_NODES - 1);
    assert_int_equal(set.outcomes, 1);
    assert_int_equal(set.outcome.end, TT_PLACEMENT_DONE);
    assert_int_equal(set.outcome.moves, 2);
    assert_int_equal(placement->version, 1);
    set_fini(&set);
}

static void what_cannot_be_planned_is_refused(void **state) {
    (void)state;
    struct set set;
    struct tt_error why;
    set_init(&set);
    const uint16_t same[WORLD_MODELS] = {0, 1, 0}, nowhere[WORLD_MODELS] = {0, 2, 0};
    assert_int_equal(tt_model_set_place(&set.models, same, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "lies there already"));
    assert_int_equal(tt_model_set_place(&set.models, nowhere, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "there is no pool 2; pools are numbered from 0 to 1"));
    for (uint16_t i = SECOND; i < WORLD_NODES; i++)
        tt_model_set_part(&set.models, i);
    assert_int_equal(tt_model_set_place(&set.models, swapped, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "no backend of pool"));
    tt_model_set_check(&set.models);
    for (uint16_t i = SECOND; i < WORLD_NODES; i++)
        tt_model_set_join(&set.models, i);
    begin(&set);
    assert_int_equal(tt_model_set_place(&set.models, swapped, &why), TT_ERR_BUSY);
    assert_non_null(strstr(why.text, "a plan is under way: LOADING"));
    tt_model_set_drop_plan(&set.models, TT_PLACEMENT_STOPPED, PRIMARY);
    struct tt_frame_record wish = {.id = 1, .model = 2};
    assert_true(tt_model_set_wish(&set.models, FRONTEND, &wish));
    assert_int_equal(tt_model_set_place(&set.models, swapped, &why), TT_ERR_BUSY);
    assert_non_null(strstr(why.text, "being loaded or unloaded"));
    set_fini(&set);
}

/* The backends that loaded unload again, and spares get the placement in force. */
static void a_plan_is_dropped_as_a_whole(void **state) {
    (void)state;
    for (int32_t is_notified = 0; is_notified < 2; is_notified++) {
        struct set set;
        set_init(&set);
        begin(&set);
        if (is_notified)
            answer(&set, BACKEND, WORLD_NODES - 1);
        tt_outbox_clear(&set.outbox);
        tt_model_set_part(&set.models, is_notified ? SPARE : BACKEND + 1);
        assert_int_equal(set.outcome.end, TT_PLACEMENT_LOST);
        assert_int_equal(set.outcome.node, is_notified ? SPARE : BACKEND + 1);
        assert_int_equal(set.models.placement.stage, TT_PLACEMENT_NONE);
        assert_int_equal(set.models.placement.homes[0], 0);
        assert_int_equal(sent(&set, BACKEND, 1), 0);
        assert_int_equal(sent(&set, SECOND, 0), 0);
        assert_int_equal(sent(&set, BACKEND, 0), 1);
        assert_int_equal(sent(&set, SPARE, 0), is_notified ? -1 : 1);
        tt_model_set_part(&set.models, FRONTEND); /* is no member of a plan */
        set_fini(&set);
    }
}

static void a_load_that_fails_drops_the_plan(void **state) {
    (void)state;
    struct set set;
    set_init(&set);
    begin(&set);
    uint64_t version = set.models.version;
    const struct tt_frame_record records[] = {
        {.id = version},
        {.id = version, .model = 2, .code = (uint16_t)-TT_ERR_IO}, /* no part of the plan */
        {.id = version, .model = 0, .code = (uint16_t)-TT_ERR_IO}};
    struct tt_frame frame = {.type = TT_FRAME_SERVED, .count = 2, .records = records};
    assert_true(tt_model_set_served(&set.models, SECOND, &frame));
    assert_int_equal(set.models.placement.stage, TT_PLACEMENT_LOADING);
    frame.count = 3;
    assert_true(tt_model_set_served(&set.models, SECOND + 1, &frame));
    assert_int_equal(set.outcome.end, TT_PLACEMENT_FAILED);
    struct tt_text text;
    tt_text_init(&text);
    tt_placement_put_outcome(&set.world.settings, &set.outcome, &text);
    assert_string_equal(tt_text_string(&text),
                        "the plan of 2 moves was dropped: node 7 cannot load model m");
    tt_text_fini(&text);
    set_fini(&set);
}

static void wishes_wait_for_a_plan(void **state) {
    (void)state;
    struct set set;
    set_init(&set);
    begin(&set);
    struct tt_frame_record wish = {.id = 7, .model = 0};
    assert_true(tt_model_set_wish(&set.models, FRONTEND, &wish));
    assert_int_equal(set.models.stage, TT_MODEL_STAGE_NONE);
    tt_model_set_check(&set.models);
    tt_model_set_drop_plan(&set.models, TT_PLACEMENT_STOPPED, PRIMARY);
    assert_int_equal(set.models.stage, TT_MODEL_STAGE_FRONTENDS);
    set_fini(&set);
}

static void a_spare_follows(void **state) {
    (void)state;
    struct set set, spare;
    set_init(&set);
    set_init(&spare);
    tt_model_set_yield(&spare.models);
    begin(&set);
    answer(&set, BACKEND, WORLD_NODES - 1);
    for (int64_t i = 0; i < set.outbox.frame_count; i++)
        if (set.outbox.frames[i].to == SPARE) {
            struct tt_frame frame = tt_outbox_frame(&set.outbox, i);
            assert_true(tt_model_set_follow(&spare.models, &frame));
        }
    assert_int_equal(spare.models.placement.homes[0], 1);
    tt_model_set_yield(&set.models); /* before its switch */
    assert_int_equal(set.outcome.end, TT_PLACEMENT_DEPOSED);
    assert_int_equal(set.models.placement.homes[0], 0);
    tt_model_set_lead(&spare.models, tt_epoch(2, PRIMARY));
    tt_outbox_clear(&spare.outbox);
    tt_model_set_join(&spare.models, BACKEND);
    assert_int_equal(sent(&spare, BACKEND, 0), 0);
    assert_int_equal(sent(&spare, BACKEND, 1), 1);
    set_fini(&set);
    set_fini(&spare);
}

static void move_to_no_pool(void) {
    struct set set;
    set_init(&set);
    set.models.placement.homes[1] = 5;
    tt_model_set_check(&set.models);
}

static void move_beside_the_plan(void) {
    struct set set;
    set_init(&set);
    set.models.placement.others[1] = 0;
    tt_model_set_check(&set.models);
}

static void broken_placements_are_found(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(move_to_no_pool, "pool_count"),
        BREACH(move_beside_the_plan, "differ"),
    };
    assert_all_break(breaches, sizeof(breaches) / sizeof(*breaches));
}

/* ---- a cluster ---- */

struct planner {
    struct tt_prng prng;
    int32_t model_count;
    int64_t begun, refused, stopped, undone;
};

/* Any model anywhere; sometimes the plan is stopped or undone. */
static void place_at_random(void *context, int64_t now, struct tt_scheduler_role *primary) {
    struct planner *self = context;
    struct tt_error why;
    uint16_t homes[WORLD_MODELS];
    uint64_t drawn = tt_prng_below(&self->prng, 10);
    for (int32_t i = 0; i < WORLD_MODELS; i++)
        homes[i] = (uint16_t)tt_prng_below(&self->prng, 2);
    if (drawn == 0)
        self->stopped += tt_scheduler_role_stop_plan(primary, &why) == TT_OK;
    else if (drawn == 1)
        self->undone += tt_scheduler_role_undo_plan(primary, now, &why) == TT_OK;
    else if (tt_scheduler_role_place(primary, now, homes, &why))
        self->refused++;
    else
        self->begun++;
}

struct endings {
    int64_t good, bad;
};

static void on_end(void *context, const struct tt_virtual_ending *ending) {
    struct endings *self = context;
    if (ending->answer == TT_ANSWER_DONE && ending->ended_at <= ending->deadline_at)
        self->good++;
    else
        self->bad++;
}

/* Plans and loads under load, loads fail, nodes crash, freeze and are cut off. */
static void plans_hold_under_faults(void **state) {
    (void)state;
    struct virtual_world world;
    world_init(&world);
    world.settings.placing_ns = 60 * TT_MS;
    struct planner planner = {.model_count = WORLD_MODELS};
    int64_t placed = 0, unplaced = 0, answered = 0, unserved = 0;
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        tt_prng_init(&planner.prng, seed, 7);
        struct tt_fault faults[FAULTS];
        virtual_world_draw_faults(&planner.prng, 100 * TT_MS, 120 * TT_MS, 300 * TT_MS, FAULTS,
                                  faults);
        struct tt_virtual_options options = virtual_world_options(&world, seed);
        options.until_at = 900 * TT_MS;
        options.faults = faults;
        options.fault_count = seed % 4 ? FAULTS : 0;
        options.loss_permille = 100;
        options.cancel_permille = 50;
        options.wish_gap_ns = seed % 2 ? 60 * TT_MS : 0;
        options.failure_permille = seed % 3 ? 50 : 0;
        options.place_gap_ns = 10 * TT_MS;
        options.place = place_at_random;
        options.context = &planner;
        struct tt_virtual_result result;
        struct tt_error why;
        assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
        if (result.violation[0])
            print_message("seed %d: %s\n", (int)seed, result.violation);
        assert_string_equal(result.violation, "");
        if (options.fault_count == 0 && options.failure_permille == 0)
            assert_true(result.placed > 0);
        placed += result.placed;
        unplaced += result.unplaced;
        answered += result.answered;
        unserved += result.unserved;
    }
    print_message("%d plans in force, %d dropped, %d stopped, %d undone, %d unserved of %d\n",
                  (int)placed, (int)unplaced, (int)planner.stopped, (int)planner.undone,
                  (int)unserved, (int)answered);
    assert_true(placed > 0 && unplaced > 0 && planner.stopped > 0 && planner.undone > 0);
    assert_true(unserved * 1000 < answered);
    virtual_world_fini(&world);
}

/* ---- a tenth of 50 models moves ---- */

struct many {
    struct virtual_world world;
    const struct tt_step_model *models[MANY_MODELS];
    struct endings endings;
    bool moves;
    int64_t begun;
};

static void many_init(struct many *self) {
    *self = (struct many){0};
    world_init(&self->world);
    for (int32_t i = 0; i < MANY_MODELS; i++)
        self->models[i] = &self->world.models[0];
    self->world.settings.model_count = MANY_MODELS;
    self->world.settings.models = self->models;
}

static void on_many_end(void *context, const struct tt_virtual_ending *ending) {
    struct many *self = context;
    on_end(&self->endings, ending);
}

/* Once: three models go from pool 0 to pool 1, and two come back. */
static void move_a_tenth(void *context, int64_t now, struct tt_scheduler_role *primary) {
    struct many *self = context;
    if (!self->moves || self->begun > 0 || now < 2 * TT_S)
        return;
    uint16_t homes[MANY_MODELS];
    int32_t left[2] = {3, MOVED - 3};
    for (int32_t i = 0; i < MANY_MODELS; i++) {
        uint16_t home = primary->models.placement.homes[i];
        bool goes = left[home] > 0;
        left[home] -= goes;
        homes[i] = goes ? 1 - home : home;
    }
    struct tt_error why;
    self->begun += tt_scheduler_role_place(primary, now, homes, &why) == TT_OK;
}

static struct tt_virtual_result run_many(struct many *self, uint64_t seed, int64_t rate,
                                         bool moves) {
    self->endings = (struct endings){0};
    self->moves = moves;
    self->begun = 0;
    struct tt_virtual_options options = virtual_world_options(&self->world, seed);
    options.gap_ns = TT_S / rate;
    options.loss_permille = 0;
    options.check_every = 4096;
    options.place_gap_ns = 10 * TT_MS;
    options.place = move_a_tenth;
    if (moves) {
        options.load_ns = 100 * TT_MS;
        options.until_at = 4 * TT_S;
    }
    options.context = self;
    options.ended = on_many_end;
    struct tt_virtual_result result;
    struct tt_error why;
    assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
    assert_string_equal(result.violation, "");
    return result;
}

/* The highest rate, in steps of 1000/s, at which at most 1 % is bad. */
static int64_t find_peak(struct many *self, uint64_t seed) {
    int64_t good = 1, bad = 128; /* thousands: more than all devices do in full batches */
    while (bad - good > 1) {
        int64_t middle = (good + bad) / 2;
        struct tt_virtual_result result = run_many(self, seed, 1000 * middle, false);
        int64_t failed = self->endings.bad + result.refused;
        if (failed * 100 <= self->endings.good + failed)
            good = middle;
        else
            bad = middle;
    }
    return 1000 * good;
}

static void a_tenth_moves_and_nothing_is_bad(void **state) {
    (void)state;
    struct many many;
    many_init(&many);
    uint64_t seed = test_seed(1);
    int64_t peak = find_peak(&many, seed);
    struct tt_virtual_result result = run_many(&many, seed, peak * 7 / 10, true);
    print_message("peak %d/s; at 70 %%: %d good, %d bad, %d refused\n", (int)peak,
                  (int)many.endings.good, (int)many.endings.bad, (int)result.refused);
    assert_int_equal(many.begun, 1);
    assert_int_equal(result.placed, 1);
    assert_int_equal(result.unplaced, 0);
    assert_int_equal(many.endings.bad, 0);
    assert_int_equal(result.refused, 0);
    assert_int_equal(result.unserved, 0);
    virtual_world_fini(&many.world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_dealt_by_devices),
        cmocka_unit_test(a_plan_goes_through_its_stages),
        cmocka_unit_test(what_cannot_be_planned_is_refused),
        cmocka_unit_test(a_plan_is_dropped_as_a_whole),
        cmocka_unit_test(a_load_that_fails_drops_the_plan),
        cmocka_unit_test(wishes_wait_for_a_plan),
        cmocka_unit_test(a_spare_follows),
        cmocka_unit_test(broken_placements_are_found),
        cmocka_unit_test(plans_hold_under_faults),
        cmocka_unit_test(a_tenth_moves_and_nothing_is_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
