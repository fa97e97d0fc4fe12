/* A scenario as a repository of emulated models: copies take as long as in the scenario, and what
 * a server has not is refused. */
#include "base/instant.h"
#include "lab/experiment/experiment.h"
#include "lab/facts/fact_repository.h"
#include "unit/lab/fact_files.h"

#include <sys/stat.h>

static enum tt_err build(const char *path, const char *const *sets, struct tt_scenario *scenario) {
    struct tt_experiment experiment;
    struct tt_error why = {""};
    if (tt_experiment_open(&experiment, path, &why))
        fail_msg("%s", why.text);
    for (size_t i = 0; sets[i]; i += 2)
        if (tt_experiment_set(&experiment, sets[i], sets[i + 1], &why))
            fail_msg("%s", why.text);
    enum tt_err err = tt_experiment_build(&experiment, scenario, &why);
    tt_experiment_close(&experiment);
    if (err)
        fail_msg("%s", why.text);
    return err;
}

/* The files of the scenario's model M, in the order config, profile, settings. */
struct files {
    struct tt_text texts[3];
};

static const char *const names[] = {"config.pbtxt", "profile.pbtxt", "tutti.pbtxt"};

static void write_and_read(const struct tt_scenario *scenario, int64_t reply_ns,
                           struct files *out) {
    struct tt_error why = {""};
    char path[512];
    if (tt_fact_repository_check(scenario, reply_ns, &why) ||
        tt_fact_repository_write(scenario, reply_ns, folder, &why))
        fail_msg("%s", why.text);
    for (size_t i = 0; i < TT_COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s/%s", folder, scenario->models[0].name, names[i]);
        tt_text_init(&out->texts[i]);
        assert_int_equal(tt_text_read_file(path, 1 << 20, &out->texts[i], &why), TT_OK);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/%s/1", folder, scenario->models[0].name);
    assert_int_equal(rmdir(path), 0); /* a version without a file */
    snprintf(path, sizeof(path), "%s/%s", folder, scenario->models[0].name);
    assert_int_equal(rmdir(path), 0);
}

static void expect(const struct files *files, int file, const char *words) {
    if (!strstr(tt_text_string(&files->texts[file]), words))
        fail_msg("%s does not say '%s':\n%s", names[file], words,
                 tt_text_string(&files->texts[file]));
}

static void forget(struct files *files) {
    for (size_t i = 0; i < TT_COUNT(names); i++)
        tt_text_fini(&files->texts[i]);
}

static void a_model_alone(void **state) {
    (void)state;
    struct tt_scenario scenario;
    struct files files;
    const char *const sets[] = {"policy", "symphony", "option.drop", "target", NULL};
    build("experiments/symphony/table2-resnet50-served.pbtxt", sets, &scenario);
    write_and_read(&scenario, 2 * TT_MS, &files);
    expect(&files, 0, "max_batch_size: 64\ninput { name: \"x\" data_type: TYPE_FP32 dims: [ 1 ] }");
    expect(&files, 1, "point { batch: 1 latency_ns: 6125000 }");
    expect(&files, 1, "point { batch: 64 latency_ns: 72464000 }");
    expect(&files, 2, "slo_us: 23000\n");
    expect(&files, 2, "name: \"symphony\"");
    expect(&files, 2, "option { key: \"drop\" value: \"target\" }");
    assert_null(strstr(tt_text_string(&files.texts[1]), "step"));
    assert_null(strstr(tt_text_string(&files.texts[2]), "emulation"));
    forget(&files);
    tt_scenario_fini(&scenario);
}

/* E1, E7: 602,112 bytes at 6 GB/s are 2352 elements of 4 bytes at 6 / 64 GB/s; 4000 bytes are 15
 * elements at 6 * 60 / 4000. */
static void copies_take_as_long(void **state) {
    (void)state;
    struct tt_scenario scenario;
    struct files files;
    const char *const naive[] = {"contender", "naive", NULL};
    const char *const baseline[] = {"contender", "opt wait", NULL};
    build("experiments/e2bird/res50.pbtxt", naive, &scenario);
    write_and_read(&scenario, 0, &files);
    expect(&files, 0, "dims: [ 2352 ]");
    expect(&files, 0, "dims: [ 15 ]");
    assert_null(strstr(tt_text_string(&files.texts[2]), "device_executors"));
    expect(&files, 2, "copy_in { fixed_us: 4.000000 gb_per_s: 0.093750000 }");
    expect(&files, 2, "copy_out { fixed_us: 4.000000 gb_per_s: 0.090000000 }");
    expect(&files, 2, "device { copies: EACH }");
    expect(&files, 1, "step { name: \"step0\"");
    forget(&files);
    tt_scenario_fini(&scenario);
    build("experiments/e2bird/res50.pbtxt", baseline, &scenario);
    write_and_read(&scenario, 0, &files);
    expect(&files, 2, "device { copies: WHOLE }");
    forget(&files);
    tt_scenario_fini(&scenario);
    /* Without copies executors share an emulated device in the other way. */
    const char *const shared[] = {"executors", "3", NULL};
    build("experiments/symphony/table2-resnet50.pbtxt", shared, &scenario);
    scenario.device_count = 1;
    write_and_read(&scenario, 0, &files);
    expect(&files, 2, "emulation {\n  device_executors: 3\n}");
    forget(&files);
    tt_scenario_fini(&scenario);
}

static void what_a_server_has_not_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *experiment, *sets[3], *says;
    } bad[] = {
        {"experiments/batchmaker/lstm.pbtxt", {NULL}, "is of cells"},
        {"experiments/e2bird/res50.pbtxt", {"devices", "2", NULL}, "one model on one device"},
        {"experiments/symphony/table2-resnet50.pbtxt", {"jitter", "0.1", NULL}, "no jitter"},
        {"experiments/symphony/table2-resnet50.pbtxt", {"abort_ms", "1", NULL}, "abort_ms"},
    };
    for (size_t i = 0; i < TT_COUNT(bad); i++) {
        struct tt_scenario scenario;
        struct tt_error why = {""};
        build(bad[i].experiment, bad[i].sets, &scenario);
        assert_int_equal(tt_fact_repository_check(&scenario, 0, &why), TT_ERR_INVALID);
        if (!strstr(why.text, bad[i].says))
            fail_msg("'%s' does not say '%s'", why.text, bad[i].says);
        tt_scenario_fini(&scenario);
    }
    struct tt_scenario scenario;
    struct tt_error why = {""};
    const char *const none[] = {NULL};
    build("experiments/symphony/table2-resnet50.pbtxt", none, &scenario);
    assert_int_equal(tt_fact_repository_write(&scenario, 0, "/nonexistent", &why), TT_ERR_IO);
    assert_int_equal(tt_fact_repository_check(&scenario, 24 * TT_MS, &why), TT_OK);
    assert_int_equal(tt_fact_repository_check(&scenario, 25 * TT_MS, &why), TT_ERR_INVALID);
    assert_non_null(strstr(why.text, "nothing of the objective of model 'ResNet50', 25 ms"));
    tt_scenario_fini(&scenario);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_alone),
        cmocka_unit_test(copies_take_as_long),
        cmocka_unit_test(what_a_server_has_not_is_refused),
    };
    return cmocka_run_group_tests(tests, fact_files_make, fact_files_remove);
}
