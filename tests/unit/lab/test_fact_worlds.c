/* Facts in real time: what a file may say, results that are kept and not measured again, and the
 * circumstances that are stated beside a value. */
/* threaded */
#include "lab/facts/fact_conditions.h"
#include "lab/facts/fact_report.h"
#include "unit/lab/fact_files.h"

#define EMULATED "world: \"emulated\" "
#define RUN "ours { experiment: \"example.pbtxt\" measure: "

/* Every request is answered, however late this machine is. */
static const char patient[] =
    "duration_s: 0.05 device { count: 2 } model { name: \"M\" max_batch: 4 "
    "profile { linear { beta_ms: 1 } } } load { rate: 200 process: UNIFORM } seed: 1 "
    "policy { name: \"window\" option { key: \"max_delay\" value: \"0\" } }";

static int says; /* lines that a run said */

static void count_line(const char *line) { says += line[0] != '\0'; }

/* The value of the only fact of the text; with `state` what is kept there counts. */
static double measure(const char *facts_text, const char *state, const volatile sig_atomic_t *stop,
                      struct tt_text *conditions) {
    put("facts.pbtxt", facts_text);
    struct tt_facts facts;
    struct tt_error why = {""};
    struct tt_fact_runs *runs;
    bool chosen = true;
    struct tt_fact_runs_options options = {
        .workers = 4, .state_path = state, .say = count_line, .stop = stop};
    if (tt_facts_open(&facts, place("facts.pbtxt"), &why))
        fail_msg("%s", why.text);
    assert_true(tt_facts_in_real_time(&facts));
    if (tt_fact_runs_new(&facts, &chosen, &options, &runs, &why))
        fail_msg("%s", why.text);
    says = 0;
    if (tt_fact_runs_run(runs, &why))
        fail_msg("%s", why.text);
    double value = tt_fact_runs_value(runs, 0, NULL);
    if (conditions)
        tt_fact_runs_conditions(runs, 0, conditions);
    tt_fact_runs_free(runs);
    tt_facts_close(&facts);
    return value;
}

static void a_run_takes_its_time(void **state) {
    (void)state;
    put("example.pbtxt", patient);
    struct tt_text conditions;
    tt_text_init(&conditions);
    double latency_ms = measure(EMULATED HEAD RUN "LATENCY_MEAN_MS } }", NULL, NULL, &conditions);
    assert_true(latency_ms >= 1); /* devices wait as long as the profile says */
    assert_int_equal(says, 2);    /* it began, and ended */
    assert_non_null(strstr(tt_text_string(&conditions), " cores, load average before it "));
    assert_non_null(strstr(tt_text_string(&conditions), "others used at most "));
    tt_text_clear(&conditions);
    double share = measure(EMULATED "fact { id: \"a\" what: \"w\" " RUN "GOOD_SHARE } }", NULL,
                           NULL, &conditions);
    assert_true(share == 1);
    tt_text_fini(&conditions);
}

/* What is kept is not measured again: a mean latency in ns would not be the same twice. */
static void a_kept_result_is_not_measured_again(void **state) {
    (void)state;
    static const char latency[] = EMULATED HEAD RUN "LATENCY_MEAN_MS } }";
    char kept[256];
    snprintf(kept, sizeof(kept), "%s", place("example.state"));
    put("example.pbtxt", patient);
    double first = measure(latency, kept, NULL, NULL);
    assert_int_equal(says, 2);
    struct tt_text conditions;
    tt_text_init(&conditions);
    assert_true(measure(latency, kept, NULL, &conditions) == first);
    assert_int_equal(says, 0);
    assert_true(conditions.length > 0);
    tt_text_fini(&conditions);
    /* Another measure of the same run is there, too. */
    assert_true(measure(EMULATED HEAD RUN "GOOD_SHARE } }", kept, NULL, NULL) == 1);
    assert_int_equal(says, 0);
    /* A changed experiment is another run, also under its old name. */
    char changed[512];
    snprintf(changed, sizeof(changed), "%s jitter: 0.1", patient);
    put("example.pbtxt", changed);
    (void)measure(latency, kept, NULL, NULL);
    assert_int_equal(says, 2);
    /* And so is another seed. */
    (void)measure(EMULATED HEAD "ours { experiment: \"example.pbtxt\" set: \"seed=2\" "
                                "measure: LATENCY_MEAN_MS } }",
                  kept, NULL, NULL);
    assert_int_equal(says, 2);
    unlink(kept);
}

static void an_interrupted_run_is_not_kept(void **state) {
    (void)state;
    static const char latency[] = EMULATED HEAD RUN "LATENCY_MEAN_MS } }";
    volatile sig_atomic_t stop = 1;
    char kept[256];
    snprintf(kept, sizeof(kept), "%s", place("example.state"));
    put("example.pbtxt", patient);
    assert_true(isnan(measure(latency, kept, &stop, NULL)));
    stop = 0;
    assert_true(measure(latency, kept, &stop, NULL) >= 1);
    assert_int_equal(says, 2);
    unlink(kept);
}

static void senseless_facts_are_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"world: \"virtual\" " HEAD RUN "GOODPUT } }", "it must be simulated, emulated or real"},
        {EMULATED HEAD RUN "GOODPUT } holds { golden: 1 } }", "gives the same value again"},
        {EMULATED HEAD "ours { experiment: \"e\" set: \"world=real\" } }", "of the file's world"},
        {EMULATED HEAD RUN "STAGGERED_BOUND } }", "measures a run or a search"},
        {EMULATED HEAD RUN "SCHEDULER_PER_S } }", "measures a run or a search"},
        {EMULATED HEAD RUN "UTILISATION served: true } }", "what a client sees"},
        {"world: \"real\" " HEAD RUN "GOODPUT served: true } }", "of the world emulated"},
        {HEAD RUN "GOODPUT served: true } }", "of the world emulated"},
        {EMULATED HEAD RUN "GOODPUT reply_ms: 1 } }", "belongs to a served run"},
        {EMULATED HEAD RUN "GOODPUT served: true reply_ms: -1 } }", "must be >= 0"},
        {"fact { id: \"a\" what: \"w\" " RUN "GOODPUT } }", "shows nothing"},
    };
    for (size_t i = 0; i < TT_COUNT(bad); i++) {
        put("facts.pbtxt", bad[i][0]);
        struct tt_facts facts;
        struct tt_error why = {""};
        assert_int_equal(tt_facts_open(&facts, place("facts.pbtxt"), &why), TT_ERR_INVALID);
        if (!strstr(why.text, bad[i][1]) || !strstr(why.text, "facts.pbtxt:1"))
            fail_msg("'%s' does not say '%s' with its line", why.text, bad[i][1]);
    }
}

/* What a server of emulated models has not is found before anything runs. */
static void what_cannot_be_served_is_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"set: \"jitter=0.1\"", "no jitter"},
        {"set: \"seed=1\"", ""},
    };
    put("example.pbtxt", patient);
    for (size_t i = 0; i < TT_COUNT(bad); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 EMULATED HEAD "ours { experiment: \"example.pbtxt\" %s measure: GOOD_SHARE "
                               "served: true } }",
                 bad[i][0]);
        put("facts.pbtxt", text);
        struct tt_facts facts;
        struct tt_error why = {""};
        struct tt_fact_runs *runs = NULL;
        bool chosen = true;
        struct tt_fact_runs_options options = {.workers = 1};
        assert_int_equal(tt_facts_open(&facts, place("facts.pbtxt"), &why), TT_OK);
        enum tt_err err = tt_fact_runs_new(&facts, &chosen, &options, &runs, &why);
        assert_int_equal(err, bad[i][1][0] ? TT_ERR_INVALID : TT_OK);
        if (!strstr(why.text, bad[i][1]))
            fail_msg("'%s' does not say '%s'", why.text, bad[i][1]);
        tt_fact_runs_free(err ? NULL : runs);
        tt_facts_close(&facts);
    }
}

/* A line of text from conditions that are given. */
static void conditions_are_summed_up(void **state) {
    (void)state;
    struct tt_fact_conditions_sum sum = {.count = 0};
    struct tt_text text;
    tt_text_init(&text);
    tt_fact_conditions_describe(&sum, &text);
    assert_int_equal(text.length, 0);
    static const char *const results[] = {
        "{\"conditions\": {\"date\": \"2026-01-02\", \"cores\": 2, \"load_average\": 0.5, "
        "\"others\": 0.1}, \"live\": {\"doubtful\": true}}",
        "{\"conditions\": {\"date\": \"2026-01-01\", \"cores\": 2, \"load_average\": 1.25, "
        "\"others\": null}, \"doubtful\": true}",
        "{\"conditions\": {\"date\": \"2026-01-03\", \"cores\": 2, \"load_average\": null, "
        "\"others\": 0.25}, \"doubtful\": false}",
        "{\"total\": 1}",
    };
    for (size_t i = 0; i < TT_COUNT(results); i++) {
        json_t *result = json_loads(results[i], 0, NULL);
        tt_fact_conditions_add(&sum, result);
        json_decref(result);
    }
    tt_fact_conditions_add(&sum, NULL);
    tt_fact_conditions_describe(&sum, &text);
    assert_string_equal(tt_text_string(&text),
                        "2026-01-01 .. 2026-01-03, 2 cores, load average before it at most 1.2, "
                        "others used at most 0.25 processors, doubtful: 2 of 3 runs");
    tt_text_fini(&text);
}

/* The third table, and the line that counts it. */
static void measured_rows_have_a_table_of_their_own(void **state) {
    (void)state;
    put("facts.pbtxt", "title: \"T\" " EMULATED HEAD RUN "GOOD_PER_S } } fact { id: \"b\" what: "
                       "\"alone\" unit: \"r/s\" " RUN "GOODPUT served: true } }");
    struct tt_facts facts;
    struct tt_error why = {""};
    assert_int_equal(tt_facts_open(&facts, place("facts.pbtxt"), &why), TT_OK);
    struct tt_fact_row rows[2] = {{.fact = facts.message->fact[0], .ours = 10},
                                  {.fact = facts.message->fact[1], .ours = 7}};
    struct tt_fact_table table = {
        .system = "s", .title = "T", .world = facts.message->world, .rows = rows, .count = 2};
    struct tt_text text;
    tt_text_init(&text);
    tt_fact_report_markdown(&table, &text);
    const char *measured = strstr(tt_text_string(&text), "\n| measured | ");
    assert_non_null(measured);
    assert_non_null(strstr(tt_text_string(&text), "| w |  | published rule | emulated | 10.0 |"));
    assert_non_null(strstr(measured, "| alone |  | published rule | emulated, by processes | "
                                     "7.000 r/s |"));
    assert_non_null(strstr(measured, "`tutti reproduce s --world emulated --only b`"));
    tt_text_clear(&text);
    struct tt_fact_counts counts = {0};
    tt_fact_counts_add(&counts, &table);
    tt_fact_counts_print(&counts, &text);
    assert_memory_equal(tt_text_string(&text), "measured 1, without a published value\n", 38);
    assert_int_equal(counts.published, 1);
    assert_int_equal(counts.regression, 0);
    json_t *json = tt_fact_report_json(&table);
    assert_string_equal(json_string_value(json_object_get(json, "world")), "emulated");
    assert_int_equal(json_array_size(json_object_get(json, "measured")), 1);
    json_decref(json);
    tt_text_fini(&text);
    tt_facts_close(&facts);
}

/* Every emulated fact that ships can be run: its experiment exists, and what it sets is known. */
static void the_shipped_facts_make_sense(void **state) {
    (void)state;
    static const char *const systems[] = {"dvabatch", "e2bird", "symphony"};
    for (size_t i = 0; i < TT_COUNT(systems); i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/facts/emulated/%s.pbtxt", TUTTI_SOURCE_DIR, systems[i]);
        struct tt_facts facts;
        struct tt_error why = {""};
        if (tt_facts_open(&facts, path, &why))
            fail_msg("%s", why.text);
        assert_string_equal(facts.message->world, "emulated");
        bool *chosen = malloc(facts.message->n_fact * sizeof(*chosen));
        assert_non_null(chosen);
        for (size_t f = 0; f < facts.message->n_fact; f++)
            chosen[f] = true;
        struct tt_fact_runs *runs;
        struct tt_fact_runs_options options = {.quick = true};
        if (tt_fact_runs_new(&facts, chosen, &options, &runs, &why))
            fail_msg("%s", why.text);
        tt_fact_runs_free(runs);
        free(chosen);
        tt_facts_close(&facts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_takes_its_time),
        cmocka_unit_test(a_kept_result_is_not_measured_again),
        cmocka_unit_test(an_interrupted_run_is_not_kept),
        cmocka_unit_test(senseless_facts_are_refused),
        cmocka_unit_test(what_cannot_be_served_is_refused),
        cmocka_unit_test(conditions_are_summed_up),
        cmocka_unit_test(measured_rows_have_a_table_of_their_own),
        cmocka_unit_test(the_shipped_facts_make_sense),
    };
    return cmocka_run_group_tests(tests, fact_files_make, fact_files_remove);
}
