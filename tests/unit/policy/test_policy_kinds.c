/* The contract of every registered kind: its traits agree with its callbacks and options, the
 * server can use what it states about them, and an instance with the defaults can be created. A new
 * policy needs no line here. */
#include "policy/default_policy.h"
#include "policy/policy.h"
#include "unit/policy/drive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_option_spec *spec_of(const struct tt_policy_kind *kind, const char *key) {
    for (int32_t i = 0; i < kind->option_count; i++)
        if (strcmp(kind->options[i].key, key) == 0)
            return &kind->options[i];
    return NULL;
}

static void assert_takes(const struct tt_policy_kind *kind, const struct tt_option *options,
                         int32_t count) {
    int64_t values[TT_MAX_OPTIONS];
    struct tt_error why = {0};
    enum tt_err err =
        tt_options_parse(kind->options, kind->option_count, options, count, values, &why);
    if (err)
        fail_msg("policy %s: %s", kind->name, why.text);
}

/* The option is a choice of the kind, and the value is one of its choices. */
static void assert_chooses(const struct tt_policy_kind *kind, struct tt_option option) {
    const struct tt_option_spec *spec = spec_of(kind, option.key);
    assert_non_null(spec);
    assert_int_equal(spec->type, TT_OPTION_CHOICE);
    assert_takes(kind, &option, 1);
}

static void names_are_unique_and_in_order(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        const struct tt_policy_kind *kind = tt_policy_at(i);
        assert_ptr_equal(tt_policy_find(kind->name), kind);
        assert_true(i == 0 || strcmp(tt_policy_at(i - 1)->name, kind->name) < 0);
        assert_true(strlen(kind->summary) > 0);
    }
    assert_null(tt_policy_find("no such policy"));
}

static void names_are_listed(void **state) {
    (void)state;
    char all[512], cells[512], few[8];
    tt_policy_names(NULL, all, sizeof(all));
    assert_non_null(strstr(all, ", clockwork, "));
    tt_policy_names(tt_policy_is_by_cells, cells, sizeof(cells));
    assert_non_null(strstr(cells, "cellular, "));
    assert_null(strstr(cells, "clockwork"));
    assert_int_equal(strlen(tt_policy_names(NULL, few, sizeof(few))), 7); /* truncated */
    assert_memory_equal(few, all, 7);
}

static void callbacks_agree_with_traits(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        const struct tt_policy_kind *kind = tt_policy_at(i);
        const struct tt_policy_ops *ops = kind->ops;
        const struct tt_policy_traits *traits = &kind->traits;
        print_message("%s\n", kind->name);
        assert_true(ops->arrived && ops->finished && ops->cancelled && ops->decide);
        assert_true(ops->next_at && ops->executor_changed && ops->check && ops->free);
        assert_int_equal(ops->released != NULL, traits->granularity == TT_GRANULARITY_CELL);
        assert_int_equal(ops->released != NULL, tt_policy_is_by_cells(kind));
        assert_true(!ops->max_tasks || traits->granularity == TT_GRANULARITY_CELL);
        assert_int_equal(ops->ready != NULL, traits->waits_for_inputs);
        assert_true(traits->default_depth >= 1);
        assert_true(!traits->stage_per_executor || traits->granularity == TT_GRANULARITY_STAGE);
        assert_true(!traits->first_step_only || traits->granularity == TT_GRANULARITY_GRAPH);
        assert_true(!traits->runs_alone || !kind->serving.same_shape.key);
    }
}

static void servers_options_are_options(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        const struct tt_policy_kind *kind = tt_policy_at(i);
        const struct tt_policy_serving *serving = &kind->serving;
        print_message("%s\n", kind->name);
        assert_true(kind->option_count <= TT_MAX_OPTIONS);
        assert_int_equal(serving->defaults != NULL, serving->default_count > 0);
        assert_takes(kind, NULL, 0);
        assert_takes(kind, serving->defaults, serving->default_count);
        if (serving->same_shape.key)
            assert_chooses(kind, serving->same_shape);
        if (serving->computes_late.key)
            assert_chooses(kind, serving->computes_late);
        /* A policy with the shared option states its meaning to the server. */
        const struct tt_option_spec *drop = spec_of(kind, "drop");
        if (drop && strcmp(drop->choices, "none|deadline") == 0)
            assert_true(
                tt_options_have(serving->computes_late, &(struct tt_option)TT_DROP_NONE_OPTION, 1));
        const struct tt_policy_workers *workers = &serving->workers;
        assert_int_equal(workers->plans != NULL, workers->measured.key != NULL);
        assert_true(workers->sizes || !workers->plans);
        if (workers->sizes)
            assert_int_equal(spec_of(kind, workers->sizes)->type, TT_OPTION_SIZES);
        if (workers->plans) {
            assert_int_equal(spec_of(kind, workers->plans)->type, TT_OPTION_GROUPS);
            assert_chooses(kind, workers->measured);
        }
    }
}

static void start(void *context, int64_t now, struct tt_task *task) {
    (void)context;
    (void)now;
    (void)task;
}

/* With the defaults and with the server's, on two executors of the kind's depth. */
static void instances_are_made(void **state) {
    (void)state;
    for (int32_t i = 0; i < 2 * tt_policy_count(); i++) {
        const struct tt_policy_kind *kind = tt_policy_at(i / 2);
        struct tt_mechanism_options options = {.model_capacity = 2,
                                               .executor_capacity = 2,
                                               .max_batch = 8,
                                               .depth = kind->traits.default_depth,
                                               .request_limit = 16};
        struct tt_carrier carrier = {.start = start};
        struct tt_mechanism mechanism;
        struct tt_error why = {0};
        assert_int_equal(tt_mechanism_init(&mechanism, &options, &carrier, &why), TT_OK);
        assert_null(mechanism.traits);
        struct tt_policy_setup setup = {.domain = &mechanism,
                                        .options = kind->serving.defaults,
                                        .option_count = i % 2 ? kind->serving.default_count : 0};
        if (tt_policy_create(&mechanism, kind->name, &setup, &why))
            fail_msg("%s", why.text);
        assert_ptr_equal(mechanism.traits, &kind->traits);
        int32_t depth = kind->traits.default_depth;
        int32_t tasks = tt_mechanism_max_tasks(&mechanism, depth);
        assert_true(tasks >= 1 && tasks <= depth);
        tt_mechanism_add_executor(&mechanism, 0, 0, 0);
        tt_mechanism_decide(&mechanism, 0);
        tt_mechanism_check(&mechanism);
        tt_policy_destroy(&mechanism);
        tt_mechanism_fini(&mechanism);
    }
}

/* Behind more requests than an executor takes at once waits an urgent one. */
static void priorities_are_as_traits_say(void **state) {
    (void)state;
    for (int32_t i = 0; i < tt_policy_count(); i++) {
        const struct tt_policy_kind *kind = tt_policy_at(i);
        if (tt_policy_is_by_cells(kind))
            continue;
        print_message("%s\n", kind->name);
        const struct drive_model model = {.beta_ns = TT_MS, .slo_ns = TT_S, .max_batch = 1};
        const struct drive_setup setup = {.models = &model,
                                          .model_count = 1,
                                          .executors = 1,
                                          .depth = kind->traits.default_depth,
                                          .policy = kind->name};
        struct drive drive;
        drive_open(&drive, &setup);
        int32_t last = kind->traits.default_depth + 2; /* of those that are not urgent */
        for (int32_t r = 0; r <= last + 1; r++) {
            drive_arrival(&drive, r > last ? TT_US : 0, 0);
            drive.arrivals[r].priority = r > last ? 1 : 2;
        }
        drive_run(&drive, TT_NEVER);
        assert_int_equal(drive.member_count, last + 2);
        assert_int_equal(drive.members[last + 1] == last, kind->traits.orders_by_priority);
        drive_close(&drive);
    }
}

/* All 32 models that the facts can describe. */
static void defaults_fit_the_model(void **state) {
    (void)state;
    for (int32_t bits = 0; bits < 32; bits++) {
        struct tt_policy_facts facts = {.is_cells = bits & 1,
                                        .has_objective = bits & 2,
                                        .has_dynamic_batching = bits & 4,
                                        .shapes_vary = bits & 8,
                                        .is_padded = bits & 16};
        const struct tt_policy_kind *kind = tt_policy_default(&facts);
        const struct tt_policy_serving *serving = &kind->serving;
        assert_int_equal(tt_policy_is_by_cells(kind), facts.is_cells);
        if (facts.is_cells) {
            assert_string_equal(kind->name, "cellular");
            continue;
        }
        /* The server must not reject its own choice. */
        if (facts.shapes_vary && !facts.is_padded)
            assert_true(
                kind->traits.runs_alone ||
                tt_options_have(serving->same_shape, serving->defaults, serving->default_count));
        const char *name = !facts.has_objective ? facts.has_dynamic_batching ? "window" : "serial"
                           : facts.shapes_vary && !facts.is_padded ? "window"
                                                                   : "adaptive";
        assert_string_equal(kind->name, name);
    }
}

static void options_are_found(void **state) {
    (void)state;
    const struct tt_option options[] = {{"a", "1"}, {"b", "on"}};
    assert_string_equal(tt_options_value("b", options, 2), "on");
    assert_null(tt_options_value("b", options, 1));
    assert_true(tt_options_have((struct tt_option){"a", "1"}, options, 2));
    assert_false(tt_options_have((struct tt_option){"a", "2"}, options, 2));
    assert_false(tt_options_have((struct tt_option){"c", "1"}, options, 2));
    assert_false(tt_options_have((struct tt_option){0}, options, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_and_in_order),
        cmocka_unit_test(names_are_listed),
        cmocka_unit_test(callbacks_agree_with_traits),
        cmocka_unit_test(servers_options_are_options),
        cmocka_unit_test(instances_are_made),
        cmocka_unit_test(priorities_are_as_traits_say),
        cmocka_unit_test(defaults_fit_the_model),
        cmocka_unit_test(options_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
