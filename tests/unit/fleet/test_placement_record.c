/* The record of a plan as text: what was written is read, what was only begun has no effect, and
 * nothing that is wrong is taken. */
#include "base/prng.h"
#include "fleet/placement_record.h"
#include "unit/cluster/virtual_world.h"
#include "unit/seed.h"

#include <string.h>

enum { SECOND = 6, ROUNDS = 2000 };

struct desk {
    struct virtual_world world;
    struct tt_placement placement;
    struct tt_text text, note;
};

static void desk_init(struct desk *self) {
    static const char *const names[WORLD_MODELS] = {"a", "b", "c"};
    *self = (struct desk){0};
    virtual_world_init(&self->world);
    for (int32_t i = 0; i < WORLD_MODELS; i++)
        self->world.models[i].name = names[i];
    for (int32_t i = WORLD_FIRST_BACKEND; i < WORLD_NODES; i++) {
        self->world.nodes[i].pool = i >= SECOND;
        self->world.nodes[i].pool_name = i >= SECOND ? "right" : "left";
    }
    assert_int_equal(tt_placement_init(&self->placement, &self->world.settings), TT_OK);
    tt_text_init(&self->text);
    tt_text_init(&self->note);
}

static void desk_fini(struct desk *self) {
    tt_placement_check(&self->placement);
    tt_placement_fini(&self->placement);
    tt_text_fini(&self->text);
    tt_text_fini(&self->note);
    virtual_world_fini(&self->world);
}

static enum tt_err read_text(struct desk *self, const char *text, struct tt_error *why) {
    return tt_placement_record_read(text, &self->placement, &self->note, why);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    struct desk desk, other;
    struct tt_error why;
    desk_init(&desk);
    desk_init(&other);
    const uint16_t homes[WORLD_MODELS] = {1, 1, 0};
    assert_int_equal(tt_placement_begin(&desk.placement, homes, &why), TT_OK);
    tt_placement_record_put(&desk.placement, 9, &desk.text);
    assert_string_equal(tt_text_string(&desk.text),
                        "9\n0 begun\na\tleft\tright\nb\tright\tright\nc\tleft\tleft\n");
    assert_int_equal(read_text(&other, tt_text_string(&desk.text), &why), TT_OK);
    assert_int_equal(other.placement.homes[0], 0); /* it was only begun */
    assert_string_equal(tt_text_string(&other.note), "; a plan was under way and has no effect");
    for (int32_t i = 0; i < 5; i++)
        tt_placement_advance(&desk.placement);
    tt_text_clear(&desk.text);
    tt_placement_record_put(&desk.placement, 9, &desk.text);
    assert_int_equal(read_text(&other, tt_text_string(&desk.text), &why), TT_OK);
    assert_memory_equal(other.placement.homes, homes, sizeof(homes));
    assert_int_equal(other.note.length, 0);
    assert_int_equal(other.placement.version, 1);
    desk_fini(&desk);
    desk_fini(&other);
}

static void what_is_wrong_has_no_effect(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "does not begin with an epoch"},
        {"x\n1 done\n", "does not begin with an epoch"},
        {"7\n1 perhaps\n", "does not begin with an epoch"},
        {"7\n1 done", "does not begin with an epoch"},
        {"7\n1 done\na\tright\tright", "line 3 has no end"},
        {"7\n1 done\na\tright\tright\na right\n", "line 4: 'a right' is not MODEL"},
        {"7\n1 done\na\tright\tright\tright\n", "line 3"},
    };
    struct desk desk;
    struct tt_error why;
    desk_init(&desk);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(read_text(&desk, cases[i].text, &why), TT_ERR_INVALID);
        if (!strstr(why.text, cases[i].message))
            fail_msg("'%s' lacks '%s'", why.text, cases[i].message);
        assert_int_equal(desk.placement.homes[0], 0);
        assert_int_equal(desk.placement.version, 0);
    }
    /* A model that is not served any more, in a pool that is gone as well. */
    assert_int_equal(read_text(&desk, "7\n4 done\nz\tgone\tgone\na\tright\tright\n", &why), TT_OK);
    assert_int_equal(desk.placement.homes[0], 1);
    assert_int_equal(desk.placement.version, 4);
    desk_fini(&desk);
}

/* A type of device that the cluster has not any more: its models are dealt, the others stay. */
static void a_pool_that_is_gone_takes_no_other_along(void **state) {
    (void)state;
    struct desk desk;
    struct tt_error why;
    desk_init(&desk);
    assert_int_equal(desk.placement.homes[1], 1); /* as it is dealt */
    assert_int_equal(
        read_text(&desk, "7\n4 done\na\tright\tright\nb\tgone\tgone\nc\tright\tright\n", &why),
        TT_OK);
    assert_string_equal(tt_text_string(&desk.note), "; pool gone is gone, model b lies in right");
    assert_int_equal(desk.placement.homes[0], 1);
    assert_int_equal(desk.placement.homes[1], 1);
    assert_int_equal(desk.placement.homes[2], 1);
    assert_int_equal(desk.placement.version, 4);
    assert_int_equal(
        read_text(&desk, "7\n5 done\na\tgone\tgone\nb\tleft\tleft\nc\tgone\tgone\n", &why), TT_OK);
    assert_string_equal(
        tt_text_string(&desk.note),
        "; pool gone is gone, model a lies in right; pool gone is gone, model c lies "
        "in right");
    assert_int_equal(desk.placement.homes[1], 0);
    assert_int_equal(read_text(&desk, "7\n6 done\nb\tright\tright\n", &why), TT_OK);
    assert_int_equal(desk.note.length, 0);
    desk_fini(&desk);
}

static void damaged_records_do_no_harm(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(1), 0);
    struct desk desk;
    desk_init(&desk);
    for (int32_t round = 0; round < ROUNDS; round++) {
        char text[] = "9\n0 begun\na\tleft\tright\nb\tright\tright\nc\tleft\tleft\n";
        static const char letters[] = "\n\t01 abeg";
        for (int32_t k = 0; k < 3; k++)
            text[tt_prng_below(&prng, sizeof(text) - 1)] =
                letters[tt_prng_below(&prng, sizeof(letters))];
        struct tt_error why;
        enum tt_err err = read_text(&desk, text, &why);
        assert_true(err == TT_OK || (err == TT_ERR_INVALID && why.text[0]));
        tt_placement_check(&desk.placement);
    }
    desk_fini(&desk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_wrong_has_no_effect),
        cmocka_unit_test(a_pool_that_is_gone_takes_no_other_along),
        cmocka_unit_test(damaged_records_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
