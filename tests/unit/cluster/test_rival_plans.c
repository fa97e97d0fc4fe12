/* S8: a primary that only one backend reaches does not know of the later one that the others have,
 * and both propose plans. One plan is in force in the end, at all nodes and as a whole, and the
 * former primary says why its own is not. */
#include "base/prng.h"
#include "base/text.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

enum { FORMER = 0, LATER = 1, LOYAL = 4, SECOND = 6, CUTS = WORLD_NODES - 1, WORLDS = 60 };

#define CUT_AT (300 * TT_MS)

/* Models 0 and 2 start in pool 0, model 1 in pool 1. */
static const uint16_t of_former[WORLD_MODELS] = {1, 1, 0}, of_later[WORLD_MODELS] = {0, 1, 1};

struct rivals {
    struct virtual_world world;
    struct tt_fault cuts[CUTS]; /* all begin and end together */
    int64_t former_at;          /* when the former primary proposes */
    bool is_recorded;           /* plans are, by the coordination service */
    /* Of one run. */
    struct {
        const struct tt_scheduler_role *roles[2];
        uint16_t homes[2][WORLD_MODELS]; /* at the latest look */
        int32_t begun[2], done[2], ended[2];
        struct tt_placement_outcome end; /* of the former's plan */
        bool overlapped;                 /* both had plans under way at one instant */
        struct tt_error refusal;         /* of the former's proposal */
    } seen;
};

static void rivals_init(struct rivals *self) {
    *self = (struct rivals){.is_recorded = true};
    virtual_world_init(&self->world);
    for (int32_t i = SECOND; i < WORLD_NODES; i++)
        self->world.nodes[i].pool = 1;
    /* The former primary from all but the loyal backend, and that from the later primary. */
    for (uint16_t i = 0; i < CUTS; i++)
        self->cuts[i] = (struct tt_fault){.kind = TT_FAULT_CUT,
                                          .at = CUT_AT,
                                          .duration_ns = 150 * TT_MS,
                                          .node = i + 1 == LOYAL ? LATER : FORMER,
                                          .other = (uint16_t)(i + 1)};
}

static bool plans(const struct tt_scheduler_role *role) {
    return role && role->is_primary && role->models.placement.stage != TT_PLACEMENT_NONE;
}

/* The former primary proposes once; the later one until its plan is in force. */
static void propose(void *context, int64_t now, struct tt_scheduler_role *primary) {
    struct rivals *self = context;
    struct tt_error why;
    uint16_t number = primary->number;
    self->seen.roles[number] = primary;
    if (!self->is_recorded)
        primary->record_plan = NULL;
    if (number == FORMER && now >= self->former_at && self->seen.begun[FORMER] == 0 &&
        !self->seen.refusal.text[0])
        self->seen.begun[FORMER] +=
            tt_scheduler_role_place(primary, now, of_former, &self->seen.refusal) == TT_OK;
    if (number == LATER && self->seen.done[LATER] == 0)
        self->seen.begun[LATER] += tt_scheduler_role_place(primary, now, of_later, &why) == TT_OK;
    self->seen.overlapped |= plans(self->seen.roles[FORMER]) && plans(self->seen.roles[LATER]);
    for (int32_t i = 0; i < 2; i++)
        if (self->seen.roles[i])
            memcpy(self->seen.homes[i], self->seen.roles[i]->models.placement.homes,
                   sizeof(self->seen.homes[i]));
}

static void on_placed(void *context, int64_t now, uint16_t scheduler,
                      const struct tt_placement_outcome *outcome) {
    (void)now;
    struct rivals *self = context;
    self->seen.ended[scheduler]++;
    self->seen.done[scheduler] += outcome->end == TT_PLACEMENT_DONE;
    if (scheduler == FORMER)
        self->seen.end = *outcome;
}

/* In the end the later plan is in force, as a whole and at both schedulers. That the other nodes
 * serve it is for the run to check. */
static void run(struct rivals *self, uint64_t seed) {
    struct tt_virtual_options options = virtual_world_options(&self->world, seed);
    options.until_at = 1500 * TT_MS;
    options.faults = self->cuts;
    options.fault_count = CUTS;
    options.place_gap_ns = TT_MS;
    options.place = propose;
    options.placed = on_placed;
    options.context = self;
    struct tt_virtual_result result;
    struct tt_error why;
    memset(&self->seen, 0, sizeof(self->seen));
    assert_int_equal(tt_virtual_cluster_run(&options, &result, &why), TT_OK);
    if (result.violation[0])
        print_message("seed %d: %s\n", (int)seed, result.violation);
    assert_string_equal(result.violation, "");
    assert_int_equal(self->seen.done[LATER], 1);
    assert_memory_equal(self->seen.homes[LATER], of_later, sizeof(of_later));
    assert_memory_equal(self->seen.homes[FORMER], of_later, sizeof(of_later));
    assert_int_equal(self->seen.ended[FORMER], self->seen.begun[FORMER]);
}

static void assert_says(const struct rivals *self, const char *text) {
    struct tt_text said;
    tt_text_init(&said);
    tt_placement_put_outcome(&self->world.settings, &self->seen.end, &said);
    assert_string_equal(tt_text_string(&said), text);
    tt_text_fini(&said);
}

/* The service has the later plan when the former primary asks it to record its own. */
static void the_record_refuses_the_former_primary(void **state) {
    (void)state;
    struct rivals rivals;
    rivals_init(&rivals);
    rivals.former_at = CUT_AT + 80 * TT_MS;
    run(&rivals, test_seed(1));
    assert_true(rivals.seen.overlapped);
    assert_int_equal(rivals.seen.begun[FORMER], 1);
    assert_int_equal(rivals.seen.done[FORMER], 0);
    assert_int_equal(rivals.seen.end.end, TT_PLACEMENT_RIVAL);
    assert_says(&rivals, "the plan of 1 move was dropped: a later primary has recorded a plan");
    virtual_world_fini(&rivals.world);
}

/* Nothing records plans: the former primary's one waits for backends until it meets the claim. */
static void the_former_primary_is_deposed(void **state) {
    (void)state;
    struct rivals rivals;
    rivals_init(&rivals);
    rivals.is_recorded = false;
    rivals.former_at = CUT_AT + 10 * TT_MS;
    run(&rivals, test_seed(1));
    assert_true(rivals.seen.overlapped);
    assert_int_equal(rivals.seen.begun[FORMER], 1);
    assert_int_equal(rivals.seen.done[FORMER], 0);
    assert_int_equal(rivals.seen.end.end, TT_PLACEMENT_DEPOSED);
    assert_says(&rivals, "the plan of 1 move was dropped: its scheduler is no primary any more; "
                         "what the next one says holds");
    virtual_world_fini(&rivals.world);
}

/* Its connections have ended: it may have been replaced, so it begins nothing. */
static void a_primary_without_links_is_refused(void **state) {
    (void)state;
    struct rivals rivals;
    rivals_init(&rivals);
    for (int32_t i = 0; i < CUTS; i++)
        rivals.cuts[i].duration_ns = 400 * TT_MS;
    rivals.former_at = CUT_AT + 300 * TT_MS; /* links end after 200 ms */
    run(&rivals, test_seed(1));
    assert_int_equal(rivals.seen.begun[FORMER], 0);
    assert_string_equal(rivals.seen.refusal.text,
                        "node 1 is not linked: it could take over with the placement of before");
    virtual_world_fini(&rivals.world);
}

/* The former primary proposes at any instant before, during and after the cut. */
static void one_plan_holds_whenever_they_propose(void **state) {
    (void)state;
    struct rivals rivals;
    rivals_init(&rivals);
    int32_t ends[TT_PLACEMENT_ENDS] = {0}, overlapped = 0, refused = 0;
    for (uint64_t seed = test_seed(1), end = seed + WORLDS; seed < end; seed++) {
        struct tt_prng prng;
        tt_prng_init(&prng, seed, 7);
        rivals.is_recorded = tt_prng_below(&prng, 2) == 0;
        int64_t duration_ns = (60 + (int64_t)tt_prng_below(&prng, 340)) * TT_MS;
        for (int32_t i = 0; i < CUTS; i++)
            rivals.cuts[i].duration_ns = duration_ns;
        rivals.former_at = CUT_AT + (int64_t)tt_prng_below(&prng, 300) * TT_MS - 100 * TT_MS;
        run(&rivals, seed);
        overlapped += rivals.seen.overlapped;
        refused += rivals.seen.refusal.text[0] != '\0';
        if (rivals.seen.ended[FORMER] > 0)
            ends[rivals.seen.end.end]++;
    }
    print_message("%d of %d at one time; the former's: %d in force, %d met a record, %d deposed, "
                  "%d lost a node, %d refused\n",
                  (int)overlapped, WORLDS, (int)ends[TT_PLACEMENT_DONE],
                  (int)ends[TT_PLACEMENT_RIVAL], (int)ends[TT_PLACEMENT_DEPOSED],
                  (int)ends[TT_PLACEMENT_LOST], (int)refused);
    assert_true(overlapped > 0 && ends[TT_PLACEMENT_DONE] > 0 && ends[TT_PLACEMENT_RIVAL] > 0 &&
                ends[TT_PLACEMENT_DEPOSED] > 0);
    virtual_world_fini(&rivals.world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_record_refuses_the_former_primary),
        cmocka_unit_test(the_former_primary_is_deposed),
        cmocka_unit_test(a_primary_without_links_is_refused),
        cmocka_unit_test(one_plan_holds_whenever_they_propose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
