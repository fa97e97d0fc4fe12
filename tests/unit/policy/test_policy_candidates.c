/* The list of candidates: which policies and options it has for which models, over all needs that
 * can be stated. */
#include "policy/policy_candidates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct list {
    struct tt_policy_candidate items[TT_POLICY_MAX_CANDIDATES];
    int32_t count;
};

static struct list list_of(const struct tt_policy_needs *needs) {
    struct list out;
    out.count = tt_policy_candidates(needs, out.items);
    return out;
}

static int32_t count_of(const struct list *list, const char *name) {
    int32_t count = 0;
    for (int32_t i = 0; i < list->count; i++)
        count += strcmp(list->items[i].policy->name, name) == 0;
    return count;
}

static void one_graph_runs_under_policies_of_graphs(void **state) {
    (void)state;
    struct list list = list_of(&(struct tt_policy_needs){.has_graphs = true, .max_batch = 8});
    assert_true(list.items[0].policy->traits.runs_alone);
    for (int32_t i = 0; i < list.count; i++) {
        assert_int_equal(list.items[i].policy->traits.granularity, TT_GRANULARITY_GRAPH);
        assert_int_equal(tt_policy_candidate_workers(&list.items[i]), 0);
    }
    assert_int_equal(count_of(&list, "window"), 1);
    assert_int_equal(count_of(&list, "deferred"), 1);
}

static void workers_are_as_many_as_fit(void **state) {
    (void)state;
    struct tt_policy_needs needs = {.has_graphs = true};
    static const int32_t cases[][3] = {/* largest batch, limit, workers */
                                       {1, 16, 2},  {2, 16, 3}, {3, 16, 3}, {8, 16, 5},
                                       {64, 16, 7}, {8, 4, 4},  {8, 2, 2},  {8, 1, 0}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        needs.max_batch = cases[c][0];
        needs.worker_limit = cases[c][1];
        struct list list = list_of(&needs);
        int32_t found = 0;
        for (int32_t i = 0; i < list.count; i++) {
            int32_t workers = tt_policy_candidate_workers(&list.items[i]);
            assert_true(workers == 0 || workers == cases[c][2]);
            found += workers > 0;
        }
        assert_int_equal(found, cases[c][2] > 0 ? 2 : 0); /* plain, and as measured */
    }
}

static void models_of_cells(void **state) {
    (void)state;
    struct tt_policy_needs needs = {.has_cells = true, .has_stages = true, .max_batch = 16};
    struct list list = list_of(&needs);
    assert_int_equal(count_of(&list, "cellular"), 2);
    assert_true(count_of(&list, "lazy") > 0);
    assert_int_equal(count_of(&list, "window"), 1); /* whole padded sequences */
    assert_int_equal(count_of(&list, "diversity"), 0);
    needs.has_trees = true;
    list = list_of(&needs);
    for (int32_t i = 0; i < list.count; i++)
        assert_true(tt_policy_is_by_cells(list.items[i].policy));
    assert_true(list.count > 0);
    needs.has_graphs = true; /* another model of the domain has no cells */
    assert_int_equal(list_of(&needs).count, 0);
}

static void lengths_and_stages(void **state) {
    (void)state;
    struct tt_policy_needs needs = {.has_graphs = true, .has_lengths = true, .max_batch = 16};
    struct list list = list_of(&needs);
    assert_int_equal(count_of(&list, "diversity"), 1); /* sorts whole inputs by length */
    assert_int_equal(count_of(&list, "lazy"), 0);
    needs.has_stages = true;
    list = list_of(&needs);
    assert_int_equal(count_of(&list, "diversity"), 3);
    assert_int_equal(count_of(&list, "lazy"), 2);
    needs.has_ring = true;
    assert_int_equal(list_of(&needs).count, 0);
    needs.worker_limit = 8;
    assert_int_equal(list_of(&needs).count, 2);
}

static struct tt_policy_needs needs_of(int32_t bits) {
    return (struct tt_policy_needs){.has_graphs = bits & 1,
                                    .has_cells = bits & 2,
                                    .has_trees = bits & 4,
                                    .has_stages = bits & 8,
                                    .mixes_shapes = bits & 16,
                                    .has_lengths = bits & 32,
                                    .has_ring = bits & 64,
                                    .max_batch = 16,
                                    .worker_limit = bits & 128 ? 16 : 0};
}

/* True if one model can have these needs. */
static bool are_possible(const struct tt_policy_needs *needs) {
    bool shapes = needs->mixes_shapes || needs->has_lengths;
    return needs->has_graphs != needs->has_cells && (needs->has_cells || !needs->has_trees) &&
           !(needs->mixes_shapes && needs->has_lengths) && (needs->has_graphs || !shapes);
}

/* For all needs: the kinds accept the options, no two candidates are the same, and each is found
 * among the others as itself. */
static void every_list_is_consistent(void **state) {
    (void)state;
    for (int32_t bits = 0; bits < 256; bits++) {
        struct tt_policy_needs needs = needs_of(bits);
        struct list list = list_of(&needs);
        for (int32_t i = 0; i < list.count; i++) {
            const struct tt_policy_candidate *it = &list.items[i];
            const struct tt_policy_serving *serving = &it->policy->serving;
            int64_t values[TT_MAX_OPTIONS];
            char text[160];
            assert_int_equal(tt_options_parse(it->policy->options, it->policy->option_count,
                                              it->options, it->option_count, values, NULL),
                             TT_OK);
            assert_int_equal(tt_policy_candidate_find(list.items, list.count, it->policy->name,
                                                      it->options, it->option_count),
                             i);
            assert_false(tt_options_have(serving->computes_late, it->options, it->option_count));
            if (needs.mixes_shapes && needs.has_graphs && !it->policy->traits.runs_alone)
                assert_true(tt_options_have(serving->same_shape, it->options, it->option_count));
            assert_ptr_equal(tt_policy_candidate_text(it, text, sizeof(text)), text);
            assert_memory_equal(text, it->policy->name, strlen(it->policy->name));
        }
    }
}

/* The policies of a domain can run each of its models. One with boundaries or with lengths is
 * enough for those that use them. */
static void joined_needs_are_those_of_all(void **state) {
    (void)state;
    for (int32_t a = 0; a < 256; a++)
        for (int32_t b = 0; b < 256; b++) {
            struct tt_policy_needs first = needs_of(a), second = needs_of(b), all = {0};
            if (!are_possible(&first) || !are_possible(&second))
                continue;
            tt_policy_needs_join(&all, &first);
            assert_memory_equal(&all, &first, sizeof(all));
            tt_policy_needs_join(&all, &second);
            struct list both = list_of(&all);
            second.has_stages |= first.has_stages || first.has_cells;
            second.has_lengths |= first.has_lengths;
            struct list one = list_of(&second);
            for (int32_t i = 0; i < both.count; i++)
                assert_true(count_of(&one, both.items[i].policy->name) > 0);
        }
}

static void texts_name_what_differs_from_the_server(void **state) {
    (void)state;
    char text[160], few[8];
    struct tt_policy_candidate plain = tt_policy_candidate_of(tt_policy_find("window"));
    assert_true(plain.option_count > 0);
    assert_string_equal(tt_policy_candidate_text(&plain, text, sizeof(text)), "window");
    struct tt_policy_candidate workers = {.policy = tt_policy_find("elastic"),
                                          .options = {{"workers", "1,1"}, {"variant", "enhanced"}},
                                          .option_count = 2};
    assert_string_equal(tt_policy_candidate_text(&workers, text, sizeof(text)),
                        "elastic (workers 1,1, variant enhanced)");
    assert_string_equal(tt_policy_candidate_text(&workers, few, sizeof(few)), "elastic");
    /* A domain may have more options than its candidate, such as measured ones. */
    struct tt_option more[] = {{"workers", "1,1"}, {"variant", "enhanced"}, {"load", "waiting"}};
    assert_true(tt_policy_candidate_matches(&workers, "elastic", more, 3));
    assert_false(tt_policy_candidate_matches(&workers, "elastic", more, 1));
    assert_false(tt_policy_candidate_matches(&workers, "window", more, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_graph_runs_under_policies_of_graphs),
        cmocka_unit_test(workers_are_as_many_as_fit),
        cmocka_unit_test(models_of_cells),
        cmocka_unit_test(lengths_and_stages),
        cmocka_unit_test(every_list_is_consistent),
        cmocka_unit_test(joined_needs_are_those_of_all),
        cmocka_unit_test(texts_name_what_differs_from_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
