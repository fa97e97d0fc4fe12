/* D1: a plan whose stages leave a node out, have it twice, or cut where that is not legal, is
 * caught. */
#include "model/onnx/cut.h"

#include "unit/breach.h"

enum { NODES = 5 };

/* Nodes 0 1 | 2 | 3 4. */
struct sound {
    struct tt_cut_position positions[NODES];
    int32_t first_nodes[4];
    int64_t times_ns[3];
    struct tt_cut_plan plan;
};

static void sound_init(struct sound *self) {
    *self = (struct sound){.positions = {[1] = {.legal = true}, [2] = {.legal = true}},
                           .first_nodes = {0, 2, 3, NODES},
                           .times_ns = {10, 20, 30}};
    self->plan = (struct tt_cut_plan){.node_count = NODES,
                                      .positions = self->positions,
                                      .stage_count = 3,
                                      .first_nodes = self->first_nodes,
                                      .times_ns = self->times_ns};
}

static void nothing_wrong(void) {
    struct sound sound;
    sound_init(&sound);
    tt_cut_plan_check(&sound.plan);
}
static void the_first_node_is_left_out(void) {
    struct sound sound;
    sound_init(&sound);
    sound.first_nodes[0] = 1;
    tt_cut_plan_check(&sound.plan);
}
static void the_last_node_is_left_out(void) {
    struct sound sound;
    sound_init(&sound);
    sound.first_nodes[3] = NODES - 1;
    tt_cut_plan_check(&sound.plan);
}
static void a_node_is_in_two_stages(void) {
    struct sound sound;
    sound_init(&sound);
    sound.first_nodes[2] = 1;
    tt_cut_plan_check(&sound.plan);
}
static void an_empty_stage(void) {
    struct sound sound;
    sound_init(&sound);
    sound.first_nodes[2] = 2;
    tt_cut_plan_check(&sound.plan);
}
static void an_illegal_cut(void) {
    struct sound sound;
    sound_init(&sound);
    sound.positions[2].legal = false;
    tt_cut_plan_check(&sound.plan);
}

static void broken_plans_are_caught(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(the_first_node_is_left_out, "self->first_nodes[0] == 0"),
        BREACH(the_last_node_is_left_out,
               "self->first_nodes[self->stage_count] == self->node_count"),
        BREACH(a_node_is_in_two_stages, "end > self->first_nodes[s]"),
        BREACH(an_empty_stage, "end > self->first_nodes[s]"),
        BREACH(an_illegal_cut, "self->positions[end - 1].legal"),
    };
    assert_holds(nothing_wrong);
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(broken_plans_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
