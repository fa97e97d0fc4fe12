/* What policy auto sees of a server's domains: models with auto only, those that share a domain
 * together, and their latest requests in order. */
/* threaded */
#include "base/instant.h"
#include "control/auto_view.h"
#include "control/control.h"
#include "control/policy_trial.h"
#include "serve/domain.h"
#include "serve/recent_arrivals.h"
#include "serve/scheduler.h"
#include "serve/served_model.h"
#include "serve/served_model_state.h"
#include "unit/control/model_folder.h"

/* A model without a file; its batches have up to `max_batch` rows. */
static void make_emulated(const char *name, int32_t max_batch, const char *tutti) {
    char config[400];
    snprintf(config, sizeof(config),
             "backend: \"emulated\" max_batch_size: %d\n"
             "dynamic_batching { priority_levels: 2 default_priority_level: 2 }\n"
             "input { name: \"input\" data_type: TYPE_FP32 dims: [ 4 ] }\n"
             "output { name: \"output\" data_type: TYPE_FP32 dims: [ 4 ] }\n",
             max_batch);
    static const char profile[] =
        "point { batch: 1 latency_ns: 1000000 } point { batch: 16 latency_ns: 4000000 }\n";
    make_directory(name, NULL);
    make_directory(name, "1");
    write_bytes(name, "config.pbtxt", config, strlen(config));
    write_bytes(name, "profile.pbtxt", profile, strlen(profile));
    write_bytes(name, "tutti.pbtxt", tutti, strlen(tutti));
}

static struct tt_control *opened(void) {
    struct tt_control_options options = {
        .repositories = roots,
        .repository_count = 1,
        .mode = TT_CONTROL_NONE,
        .poll_ns = TT_S,
        .loader = {.executors = 3, .say = say, .say_context = &said}};
    struct tt_control *control;
    struct tt_error why;
    assert_int_equal(tt_control_open(&options, &control, &why), TT_OK);
    return control;
}

struct search {
    const char *name;
    const struct tt_served_model *found;
};

static void search_domain(void *context, int32_t index, const struct tt_domain *domain) {
    struct search *search = context;
    (void)index;
    for (int32_t m = 0; m < domain->mechanism.model_capacity; m++)
        if (domain->models[m] && strcmp(domain->models[m]->name, search->name) == 0)
            search->found = domain->models[m];
}

static const struct tt_served_model *served(struct tt_control *control, const char *name) {
    struct search search = {.name = name};
    tt_scheduler_domains(tt_serving_scheduler(tt_control_serving(control)), search_domain, &search);
    assert_non_null(search.found);
    return search.found;
}

static void put(const struct tt_served_model *model, int64_t at, int16_t rows, int16_t priority) {
    struct tt_recent_arrival arrival = {
        .at = at, .deadline_at = at + 100, .rows = rows, .priority = priority};
    tt_recent_arrivals_put(model->recent, &arrival);
}

static bool is_candidate(const struct tt_auto_choice *choice, const char *policy) {
    for (int32_t i = 0; i < choice->candidate_count; i++)
        if (strcmp(choice->candidates[i].policy->name, policy) == 0)
            return true;
    return false;
}

#define AUTO(options) "policy { name: \"auto\" " options " }"
#define OPTION(key, value) "option { key: \"" key "\" value: \"" value "\" } "

static void a_view_is_of_one_domain(void **state) {
    (void)state;
    make_emulated("a", 16, AUTO(OPTION("interval", "7s") OPTION("gain", "0.1")));
    make_emulated("b", 8, AUTO(OPTION("interval", "5s") OPTION("window", "9s")));
    make_emulated("named", 8, "policy { name: \"window\" }");
    make_emulated("strict", 8, "slo_ms: 50 " AUTO(""));
    struct tt_control *control = opened();
    struct tt_serving *serving = tt_control_serving(control);
    const struct tt_served_model *a = served(control, "a"), *b = served(control, "b");
    assert_ptr_equal(a->domain, b->domain);
    assert_ptr_not_equal(a->domain, served(control, "named")->domain);
    assert_string_equal(tt_served_model_policy(a), "auto (window)");
    assert_string_equal(tt_served_model_policy(served(control, "strict")), "auto (adaptive)");
    assert_null(served(control, "named")->recent);
    assert_int_equal(tt_auto_shortest_interval(serving), 5 * TT_S);

    struct tt_auto_view *views, *view;
    struct tt_error why;
    assert_int_equal(tt_auto_views_take(serving, &views, &why), TT_OK);
    assert_non_null(views);
    assert_non_null(views->next);
    assert_null(views->next->next);
    view = views->model_count == 2 ? views : views->next;
    assert_int_equal(view->model_count, 2);
    assert_string_equal(view->current.policy->name, "window");
    assert_int_equal(view->choice.devices.executors, 3);
    assert_int_equal(view->choice.options.interval_ns, 5 * TT_S);
    assert_int_equal(view->choice.options.window_ns, 9 * TT_S);
    assert_int_equal(view->choice.options.gain_permille, 100);
    assert_true(is_candidate(&view->choice, "window"));
    assert_true(is_candidate(&view->choice, "deferred"));
    assert_true(is_candidate(&view->choice, "serial"));
    assert_false(is_candidate(&view->choice, "cellular"));
    assert_false(is_candidate(&view->choice, "elastic"));
    assert_false(is_candidate(&view->choice, "diversity")); /* it has no stages */
    tt_auto_views_free(views);
    tt_control_close(control);
}

static void requests_are_in_order_and_possible(void **state) {
    (void)state;
    make_emulated("a", 16, AUTO(""));
    make_emulated("b", 8, AUTO(""));
    struct tt_control *control = opened();
    const struct tt_served_model *a = served(control, "a"), *b = served(control, "b");
    put(a, 900, 1, 1); /* too early */
    put(a, 1000, 16, 1);
    put(b, 1000, 8, 2);
    put(b, 1005, 9, 2); /* more rows than a batch has */
    put(a, 1010, 1, 3); /* there is no such priority */
    put(a, 1020, 2, 2);
    put(b, 1015, 3, 1);
    struct tt_auto_view *view;
    struct tt_error why;
    assert_int_equal(tt_auto_views_take(tt_control_serving(control), &view, &why), TT_OK);
    assert_int_equal(view->model_count, 2);
    assert_int_equal(tt_auto_view_load(view, 1000, &why), TT_OK);
    assert_int_equal(view->arrival_count, 4);
    static const int64_t at[] = {0, 0, 15, 20}, faster_at[] = {0, 0, 7, 10};
    static const int32_t rows[] = {16, 8, 3, 2};
    for (int32_t i = 0; i < 4; i++) {
        const struct tt_sim_arrival *arrival = &view->arrivals[i];
        assert_int_equal(arrival->at, at[i]);
        assert_int_equal(arrival->rows, rows[i]);
        assert_int_equal(arrival->deadline_at, at[i] + 100);
        assert_true(arrival->cancel_at == TT_NEVER);
        assert_string_equal(view->models[arrival->model].name, i % 3 == 0 ? "a" : "b");
        assert_int_equal(view->faster[i].at, faster_at[i]);
        assert_int_equal(view->faster[i].deadline_at, faster_at[i] + 100);
    }
    assert_int_equal(
        view->step_models[0]->max_batch + view->step_models[view->model_count - 1]->max_batch, 24);
    tt_auto_views_free(view);
    tt_control_close(control);
}

static void make_cells(const char *name, const char *kind) {
    static const char config[] = "backend: \"emulated\"\nmax_batch_size: 16\n"
                                 "input { name: \"lengths\" data_type: TYPE_INT32 dims: -1 }\n"
                                 "output { name: \"output\" data_type: TYPE_UINT8 dims: 1 }\n";
    static const char step[] = "step { name: \"%s\" point { batch: 1 latency_ns: 1000000 } point { "
                               "batch: 16 latency_ns: 2000000 } }\n";
    char text[400];
    make_directory(name, NULL);
    make_directory(name, "1");
    write_bytes(name, "config.pbtxt", config, sizeof(config) - 1);
    int length = snprintf(text, sizeof(text), "linear { beta_ms: 1 }\n");
    length += snprintf(text + length, sizeof(text) - (size_t)length, step, "first");
    if (strcmp(kind, "SEQ2SEQ") == 0)
        length += snprintf(text + length, sizeof(text) - (size_t)length, step, "second");
    write_bytes(name, "profile.pbtxt", text, (size_t)length);
    length =
        snprintf(text, sizeof(text),
                 "slo_ms: 1000 emulation { cells { kind: %s max_length: 16 } } " AUTO(""), kind);
    write_bytes(name, "tutti.pbtxt", text, (size_t)length);
}

/* Sequences of 1 .. 16 cells, one every 40 ms: the mean is 8.5 ms for a chain, and twice as long
 * for an output of 16 cells behind it. Every candidate can be tried, and answers all of them. */
static void sequences_of_cells_are_tried(void **state) {
    (void)state;
    static const char *const kinds[] = {"CHAIN", "SEQ2SEQ"};
    enum { COUNT = 320 };
    for (int32_t k = 0; k < 2; k++) {
        make_cells(kinds[k], kinds[k]);
        struct tt_control *control = opened();
        const struct tt_served_model *model = served(control, kinds[k]);
        assert_string_equal(tt_served_model_policy(model), "auto (cellular)");
        for (int32_t i = 0; i < COUNT; i++)
            tt_recent_arrivals_put(model->recent,
                                   &(struct tt_recent_arrival){.at = 1000 + i * 40 * TT_MS,
                                                               .deadline_at = TT_NEVER,
                                                               .rows = 1,
                                                               .length = 1 + i % 16});
        tt_recent_arrivals_put(
            model->recent, /* longer than the model takes */
            &(struct tt_recent_arrival){
                .at = 1000 + COUNT * 40 * TT_MS, .deadline_at = TT_NEVER, .rows = 1, .length = 17});
        struct tt_auto_view *view;
        struct tt_error why;
        assert_int_equal(tt_auto_views_take(tt_control_serving(control), &view, &why), TT_OK);
        assert_int_equal(tt_auto_view_load(view, 0, &why), TT_OK);
        assert_int_equal(view->arrival_count, COUNT);
        assert_string_equal(view->current.policy->name, "cellular");
        assert_true(view->choice.candidate_count > 4);
        assert_true(is_candidate(&view->choice, "window"));
        assert_true(is_candidate(&view->choice, "lazy"));
        for (int32_t c = 0; c < view->choice.candidate_count; c++) {
            const struct tt_policy_candidate *candidate = &view->choice.candidates[c];
            struct tt_policy_trial trial = {.models = view->step_models,
                                            .model_count = view->model_count,
                                            .devices = view->choice.devices,
                                            .candidate = candidate,
                                            .depth = tt_domain_depth(candidate->policy->name, 0),
                                            .arrivals = view->arrivals,
                                            .arrival_count = COUNT};
            struct tt_auto_half half;
            print_message("%s %s\n", kinds[k], candidate->policy->name);
            assert_int_equal(tt_policy_trial_run(&trial, &half, &why), TT_OK);
            assert_int_equal(half.answered, COUNT);
            bool waits = half.latency_ns / COUNT > (k == 0 ? 9 : 25) * TT_MS;
            assert_false(waits && tt_policy_is_by_cells(candidate->policy));
            assert_true(half.latency_ns / COUNT >= (k == 0 ? 8 : 20) * TT_MS);
        }
        tt_auto_views_free(view);
        tt_control_close(control);
    }
}

static void without_auto_there_is_no_view(void **state) {
    (void)state;
    make_emulated("named", 8, "policy { name: \"window\" }");
    struct tt_control *control = opened();
    struct tt_auto_view *views;
    struct tt_error why;
    assert_true(tt_auto_shortest_interval(tt_control_serving(control)) == TT_NEVER);
    assert_int_equal(tt_auto_views_take(tt_control_serving(control), &views, &why), TT_OK);
    assert_null(views);
    tt_control_close(control);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_view_is_of_one_domain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_are_in_order_and_possible, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sequences_of_cells_are_tried, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_auto_there_is_no_view, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
