/* Plans by measured loads: what they balance, what they never exceed, what is refused; and a
 * cluster in virtual time that follows them. */
#include "base/prng.h"
#include "fleet/live_plan.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

enum { MODELS = 20, SECOND = 6, ROUNDS = 60 };

struct fleet {
    struct virtual_world world;
    const struct tt_step_model *models[MODELS];
    uint16_t homes[MODELS], groups[MODELS], found[MODELS];
    int64_t rows[MODELS];
    int32_t devices[2];
    struct tt_live_load load;
};

/* Backends 4 and 5 are pool 0, 6 and 7 pool 1. */
static void fleet_init(struct fleet *self) {
    *self = (struct fleet){0};
    virtual_world_init(&self->world);
    for (int32_t i = SECOND; i < WORLD_NODES; i++)
        self->world.nodes[i].pool = 1;
    for (uint16_t i = 0; i < MODELS; i++) {
        self->models[i] = &self->world.models[0];
        self->homes[i] = i % 2;
        self->groups[i] = i;
        self->rows[i] = 1000;
    }
    self->world.settings.model_count = MODELS;
    self->world.settings.models = self->models;
    self->world.settings.groups = self->groups;
    self->load = (struct tt_live_load){.settings = &self->world.settings,
                                       .homes = self->homes,
                                       .rows = self->rows,
                                       .span_ns = TT_S,
                                       .max_moves = 2,
                                       .devices = self->devices};
    self->devices[0] = self->devices[1] = 4;
}

static enum tt_err make(struct fleet *self, struct tt_live_plan *out, struct tt_error *why) {
    const struct tt_place_effort effort = {.moves = 20000};
    return tt_live_plan_make(&self->load, &effort, self->found, out, why);
}

static int32_t count_moves(const struct fleet *self) {
    int32_t moves = 0;
    for (int32_t i = 0; i < MODELS; i++)
        moves += self->groups[i] == i && self->found[i] != self->homes[i];
    return moves;
}

static void a_plan_balances_loads(void **state) {
    (void)state;
    struct fleet fleet;
    struct tt_live_plan plan;
    struct tt_error why;
    fleet_init(&fleet);
    fleet.rows[0] = fleet.rows[2] = 9000; /* both in pool 0 */
    assert_int_equal(make(&fleet, &plan, &why), TT_OK);
    assert_true(plan.after < plan.before / 4);
    assert_true(count_moves(&fleet) == plan.moves && plan.moves > 0 && plan.moves <= 2);
    assert_int_not_equal(fleet.found[0], fleet.found[2]);
    virtual_world_fini(&fleet.world);
}

static void what_gains_nothing_is_not_planned(void **state) {
    (void)state;
    struct fleet fleet;
    struct tt_live_plan plan;
    struct tt_error why;
    fleet_init(&fleet);
    assert_int_equal(make(&fleet, &plan, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "no plan of 2 moves gains enough"));
    memset(fleet.rows, 0, sizeof(fleet.rows));
    assert_int_equal(make(&fleet, &plan, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "no request came"));
    for (int32_t i = 0; i < MODELS; i++)
        fleet.rows[i] = INT64_MAX; /* as many as a counter holds */
    fleet.load.span_ns = 1;
    assert_int_equal(make(&fleet, &plan, &why), TT_ERR_UNAVAILABLE);
    fleet.devices[1] = 0;
    assert_int_equal(make(&fleet, &plan, &why), TT_ERR_UNAVAILABLE);
    assert_string_equal(why.text, "no device of pool without a name takes work");
    virtual_world_fini(&fleet.world);
}

/* The load of each device is balanced, not that of each pool. */
static void a_plan_balances_pools_of_different_sizes(void **state) {
    (void)state;
    struct fleet fleet;
    struct tt_live_plan plan;
    struct tt_error why;
    fleet_init(&fleet);
    fleet.devices[0] = 6;
    fleet.devices[1] = 2;
    fleet.load.max_moves = MODELS;
    assert_int_equal(make(&fleet, &plan, &why), TT_OK); /* ten models in each, of one load */
    int32_t first = 0;
    for (int32_t i = 0; i < MODELS; i++)
        first += fleet.found[i] == 0;
    assert_int_equal(first, 15);
    assert_int_equal(count_moves(&fleet), plan.moves);
    assert_true(plan.moves >= 5);
    /* 10 of 20 instead of 15, relative to 15; then nothing. */
    assert_true(plan.before > 0.33 && plan.before < 0.34);
    assert_true(plan.after < 0.001);
    /* What is balanced so is no reason for a plan. */
    memcpy(fleet.homes, fleet.found, sizeof(fleet.homes));
    assert_int_equal(make(&fleet, &plan, &why), TT_ERR_UNAVAILABLE);
    /* The bound on moves holds, and shares do not use it up. */
    for (uint16_t i = 0; i < MODELS; i++)
        fleet.homes[i] = i % 2;
    fleet.load.max_moves = 3;
    assert_int_equal(make(&fleet, &plan, &why), TT_OK);
    assert_int_equal(plan.moves, 3);
    assert_int_equal(count_moves(&fleet), 3);
    virtual_world_fini(&fleet.world);
}

/* Random loads and placements, some models with two versions. */
static void limits_hold(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    int32_t made = 0;
    for (int32_t round = 0; round < ROUNDS; round++) {
        struct fleet fleet;
        struct tt_live_plan plan;
        struct tt_error why;
        fleet_init(&fleet);
        fleet.load.max_moves = 1 + (int32_t)tt_prng_below(&prng, 4);
        fleet.devices[1] = round % 3 ? 4 : 1 + (int32_t)tt_prng_below(&prng, 9);
        for (uint16_t i = 0; i < MODELS; i++) {
            bool is_version = i % 5 == 4 && round % 2;
            fleet.groups[i] = is_version ? i - 1 : i;
            fleet.homes[i] = is_version ? fleet.homes[i - 1] : (uint16_t)tt_prng_below(&prng, 2);
            fleet.rows[i] = (int64_t)tt_prng_below(&prng, 10000);
        }
        enum tt_err err = make(&fleet, &plan, &why);
        assert_true(!err || err == TT_ERR_UNAVAILABLE);
        if (!err) {
            made++;
            assert_true(plan.after < plan.before);
            assert_int_equal(count_moves(&fleet), plan.moves);
            assert_true(plan.moves <= fleet.load.max_moves);
        }
        virtual_world_fini(&fleet.world);
    }
    assert_true(made > ROUNDS / 4);
}

/* ---- memory ---- */

enum { MIB = 1 << 20 };

/* A fleet whose models state their memory, in MiB. */
struct sized_fleet {
    struct fleet fleet;
    struct tt_step_model models[MODELS];
    struct tt_profile profiles[MODELS];
};

/* A device of pool 0 has `first` MiB, one of pool 1 `second`; 0: not stated. */
static void sized_init(struct sized_fleet *self, int64_t first, int64_t second) {
    fleet_init(&self->fleet);
    for (int32_t i = 0; i < MODELS; i++) {
        self->models[i] = *self->fleet.models[i];
        self->profiles[i] = *self->models[i].whole; /* shares its tables */
        self->profiles[i].static_bytes = 10 * MIB;
        self->profiles[i].dynamic_bytes = 5 * MIB;
        self->models[i].whole = &self->profiles[i];
        self->fleet.models[i] = &self->models[i];
    }
    for (int32_t i = SECOND - 2; i < WORLD_NODES; i++)
        self->fleet.world.nodes[i].memory_bytes = (i < SECOND ? first : second) * MIB;
    /* Only the device with the least counts. */
    self->fleet.world.nodes[SECOND].memory_bytes *= 2;
}

/* Appendix A, eq. 5: the static sum and the largest dynamic memory fit; each pool has its limit. */
static void plans_keep_each_pools_memory(void **state) {
    (void)state;
    struct sized_fleet self;
    struct tt_live_plan plan;
    struct tt_error why;
    /* Ten models of 10 MiB in each pool. The loads ask for a move of one to pool 1. */
    sized_init(&self, 200, 200);
    self.fleet.rows[0] = self.fleet.rows[2] = 9000;
    self.fleet.load.max_moves = 1;
    assert_int_equal(make(&self.fleet, &plan, &why), TT_OK);
    assert_int_equal(count_moves(&self.fleet), 1);
    virtual_world_fini(&self.fleet.world);
    /* 105 MiB are taken: no more model fits there, but pool 0 has room. */
    sized_init(&self, 200, 110);
    self.fleet.rows[0] = self.fleet.rows[2] = 9000;
    self.fleet.load.max_moves = 1;
    assert_int_equal(make(&self.fleet, &plan, &why), TT_ERR_UNAVAILABLE);
    self.fleet.rows[0] = self.fleet.rows[2] = 1000;
    self.fleet.rows[1] = self.fleet.rows[3] = 9000;
    assert_int_equal(make(&self.fleet, &plan, &why), TT_OK);
    assert_int_equal(self.fleet.found[1] + self.fleet.found[3], 1);
    virtual_world_fini(&self.fleet.world);
    /* What is not served takes no memory. */
    bool served[MODELS];
    for (int32_t i = 0; i < MODELS; i++)
        served[i] = i != 5; /* of pool 1 */
    sized_init(&self, 200, 110);
    self.fleet.rows[0] = self.fleet.rows[2] = 9000;
    self.fleet.load.max_moves = 1;
    self.fleet.load.served = served;
    assert_int_equal(make(&self.fleet, &plan, &why), TT_OK);
    virtual_world_fini(&self.fleet.world);
    /* Without what models need, limits say nothing. */
    sized_init(&self, 200, 110);
    for (int32_t i = 0; i < MODELS; i++)
        self.profiles[i].static_bytes = self.profiles[i].dynamic_bytes = 0;
    self.fleet.rows[0] = self.fleet.rows[2] = 9000;
    assert_int_equal(make(&self.fleet, &plan, &why), TT_OK);
    virtual_world_fini(&self.fleet.world);
}

/* What the devices of a pool hold while models move, in MiB. */
static int64_t held(const struct sized_fleet *self, uint16_t pool, bool meanwhile) {
    int64_t sum = 0, largest = 0;
    for (int32_t i = 0; i < MODELS; i++) {
        if (self->fleet.found[i] != pool && !(meanwhile && self->fleet.homes[i] == pool))
            continue;
        sum += self->profiles[i].static_bytes;
        if (self->profiles[i].dynamic_bytes > largest)
            largest = self->profiles[i].dynamic_bytes;
    }
    return (sum + largest) / MIB;
}

/* Random sizes, loads and limits: no pool holds more than it can, also on the way. */
static void random_plans_fit(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(2), 0);
    int32_t made = 0;
    for (int32_t round = 0; round < ROUNDS; round++) {
        struct sized_fleet self;
        struct tt_live_plan plan;
        struct tt_error why;
        int64_t limits[2] = {150 + (int64_t)tt_prng_below(&prng, 150),
                             150 + (int64_t)tt_prng_below(&prng, 150)};
        sized_init(&self, limits[0], limits[1]);
        self.fleet.load.max_moves = 1 + (int32_t)tt_prng_below(&prng, 6);
        for (uint16_t i = 0; i < MODELS; i++) {
            self.profiles[i].static_bytes = (int64_t)(1 + tt_prng_below(&prng, 20)) * MIB;
            self.profiles[i].dynamic_bytes = (int64_t)tt_prng_below(&prng, 30) * MIB;
            self.fleet.homes[i] = (uint16_t)tt_prng_below(&prng, 2);
            self.fleet.rows[i] = (int64_t)tt_prng_below(&prng, 10000);
        }
        enum tt_err err = make(&self.fleet, &plan, &why);
        assert_true(!err || err == TT_ERR_UNAVAILABLE || err == TT_ERR_INVALID);
        for (uint16_t pool = 0; !err && pool < 2; pool++) {
            bool gets = false;
            for (int32_t i = 0; i < MODELS; i++)
                gets |= self.fleet.found[i] == pool && self.fleet.homes[i] != pool;
            assert_true(held(&self, pool, gets) <= limits[pool]);
        }
        made += !err;
        virtual_world_fini(&self.fleet.world);
    }
    assert_true(made > ROUNDS / 4);
}

static void what_fits_nowhere_is_named(void **state) {
    (void)state;
    struct sized_fleet self;
    struct tt_live_plan plan;
    struct tt_error why;
    sized_init(&self, 200, 110);
    self.profiles[7].dynamic_bytes = 195 * MIB;
    assert_int_equal(make(&self.fleet, &plan, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "fits nowhere: it needs 10 MiB static and 195 MiB dynamic, "
                                     "and a backend has 200"));
    virtual_world_fini(&self.fleet.world);
}

/* A placement that exceeds a pool's memory is mended, although no load asks for it. */
static void what_exceeds_a_pool_leaves_it(void **state) {
    (void)state;
    struct sized_fleet self;
    struct tt_live_plan plan;
    struct tt_error why;
    sized_init(&self, 200, 90);
    self.fleet.load.max_moves = 4;
    if (make(&self.fleet, &plan, &why))
        fail_msg("%s", why.text);
    int32_t left = 0;
    for (int32_t i = 0; i < MODELS; i++)
        left += self.fleet.found[i] == 1;
    assert_true(left <= 8); /* 85 MiB */
    /* One move does not suffice. */
    self.fleet.load.max_moves = 1;
    assert_int_equal(make(&self.fleet, &plan, &why), TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "MiB; it has 90"));
    virtual_world_fini(&self.fleet.world);
}

/* Models come before others leave, so both must fit for a while. */
static void an_exchange_needs_room_for_both(void **state) {
    (void)state;
    struct sized_fleet self;
    struct tt_error why;
    uint16_t next[MODELS];
    sized_init(&self, 120, 120);
    memcpy(next, self.fleet.homes, sizeof(next));
    next[0] = 1; /* 115 MiB */
    assert_int_equal(
        tt_live_plan_fits(&self.fleet.world.settings, NULL, self.fleet.homes, next, &why), TT_OK);
    next[2] = 1; /* 125 MiB */
    assert_int_equal(
        tt_live_plan_fits(&self.fleet.world.settings, NULL, self.fleet.homes, next, &why),
        TT_ERR_UNAVAILABLE);
    assert_non_null(strstr(why.text, "would need 125 MiB while models come before others leave; "
                                     "it has 120"));
    next[1] = next[3] = 0; /* that leave count along */
    assert_int_equal(
        tt_live_plan_fits(&self.fleet.world.settings, NULL, self.fleet.homes, next, &why),
        TT_ERR_UNAVAILABLE);
    virtual_world_fini(&self.fleet.world);
}

/* ---- a cluster that follows its loads ---- */

enum { LOOKS_FROM_MS = 900, QUIET_FROM_MS = 2000 };

struct follower {
    struct fleet fleet;
    int64_t counted[MODELS], counted_at;
    int64_t early_bad, late_bad, late_good, begun;
    int64_t came[2], dropped[2]; /* by pool, at the latest look */
    bool plans;
};

static void look(void *context, int64_t now, struct tt_scheduler_role *primary) {
    struct follower *self = context;
    struct tt_live_plan plan;
    struct tt_error why;
    for (int32_t i = 0; i < 2; i++) {
        self->came[i] = primary->pools[i].came;
        self->dropped[i] = primary->pools[i].dropped;
    }
    for (int32_t i = 0; i < MODELS; i++) {
        self->fleet.rows[i] = primary->tickets[i] - self->counted[i];
        self->fleet.homes[i] = primary->models.placement.homes[i];
        self->counted[i] = primary->tickets[i];
    }
    self->fleet.load.span_ns = now - self->counted_at;
    self->counted_at = now;
    if (self->plans && now > LOOKS_FROM_MS * TT_MS && make(&self->fleet, &plan, &why) == TT_OK)
        self->begun += tt_scheduler_role_place(primary, now, self->fleet.found, &why) == TT_OK;
}

static void on_end(void *context, const struct tt_virtual_ending *ending) {
    struct follower *self = context;
    bool is_good = ending->answer == TT_ANSWER_DONE && ending->ended_at <= ending->deadline_at;
    bool is_late = ending->accepted_at >= QUIET_FROM_MS * TT_MS;
    self->late_good += is_good && is_late;
    self->late_bad += !is_good && is_late;
    self->early_bad += !is_good && !is_late;
}

static void follow(struct follower *self, uint64_t seed, bool plans) {
    static const int32_t shares[MODELS] = {220, 20, 220, 20, 200, 20, 40, 20, 20, 20,
                                           20,  20, 20,  20, 20,  20, 20, 20, 20, 20};
    *self = (struct follower){.plans = plans};
    fleet_init(&self->fleet);
    self->fleet.load.max_moves = 3;
    struct tt_virtual_options options = virtual_world_options(&self->fleet.world, seed);
    options.gap_ns = TT_S / 70000;
    options.until_at = 3 * TT_S;
    options.loss_permille = 0;
    options.check_every = 8192;
    options.shares = shares;
    options.place_gap_ns = 300 * TT_MS;
    options.place = look;
    options.ended = on_end;
    options.context = self;
    struct tt_virtual_result result;
    struct tt_error why;
    assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
    assert_string_equal(result.violation, "");
    assert_int_equal(result.unserved, 0);
    virtual_world_fini(&self->fleet.world);
}

/* Four fifths of the load lie in pool 0, which cannot serve them, until the first plan. */
static void a_cluster_follows_its_load(void **state) {
    (void)state;
    uint64_t seed = test_seed(1);
    struct follower fixed, moving;
    follow(&fixed, seed, false);
    follow(&moving, seed, true);
    print_message("late requests: without plans %d bad of %d, with %d plans %d of %d\n",
                  (int)fixed.late_bad, (int)(fixed.late_bad + fixed.late_good), (int)moving.begun,
                  (int)moving.late_bad, (int)(moving.late_bad + moving.late_good));
    assert_true(fixed.late_bad > 0);
    assert_true(moving.early_bad > 0 && moving.begun > 0 && moving.begun <= 2);
    assert_int_equal(moving.late_bad, 0);
    /* Pool 0 alone has too few devices, and drops. */
    int64_t tickets = 0;
    for (int32_t i = 0; i < MODELS; i++)
        tickets += fixed.counted[i];
    assert_int_equal(fixed.came[0] + fixed.came[1], tickets);
    assert_true(fixed.dropped[0] > fixed.came[0] / 10);
    assert_int_equal(fixed.dropped[1], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_balances_loads),
        cmocka_unit_test(what_gains_nothing_is_not_planned),
        cmocka_unit_test(a_plan_balances_pools_of_different_sizes),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(plans_keep_each_pools_memory),
        cmocka_unit_test(random_plans_fit),
        cmocka_unit_test(what_fits_nowhere_is_named),
        cmocka_unit_test(what_exceeds_a_pool_leaves_it),
        cmocka_unit_test(an_exchange_needs_room_for_both),
        cmocka_unit_test(a_cluster_follows_its_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
