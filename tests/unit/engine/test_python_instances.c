/* threaded */
/* slow */
/* The processes of a Python model: how they start, end, hang, and what they get. */
#include "engine/python/python_instances.h"
#include "unit/engine/python_model.h"

#include "base/clock.h"
#include "unit/breach.h"

#include <fcntl.h>
#include <signal.h>

/* Until the model answers again. */
static void await_service(struct python_bench *bench) {
    int64_t until_at = tt_clock_now() + 60 * TT_S;
    for (;;) {
        struct batch batch;
        run(&batch, bench, 1, "well");
        enum tt_err err = batch.members[0].err;
        release(&batch);
        if (!err)
            return;
        assert_int_equal(err, TT_ERR_UNAVAILABLE);
        assert_true(tt_clock_now() < until_at);
        usleep(10000);
    }
}

static void test_processes_that_end(void **state) {
    (void)state;
    static const char *const words[] = {"die", "leave"};
    static const char *const messages[] = {
        "the model's Python process ended by signal 11 (Segmentation fault) during the batch",
        "the model's Python process ended with exit code 3 during the batch"};
    struct python_bench bench;
    open_model(&bench, 1);
    for (size_t i = 0; i < TT_COUNT(words); i++) {
        struct batch batch;
        run(&batch, &bench, 2, words[i]);
        for (int32_t m = 0; m < 2; m++) {
            assert_int_equal(batch.members[m].err, TT_ERR_INTERNAL);
            assert_string_equal(batch.whys[m].text, messages[i]);
        }
        await_service(&bench);
    }
    assert_true(python_bench_said(&bench, "it ended by signal 11 (Segmentation fault); it is "
                                          "started again in 0.1 s"));
    assert_true(
        python_bench_said(&bench, "it ended with exit code 3; it is started again in 0.2 s"));
    assert_true(python_bench_said(&bench, "it serves again"));
    python_bench_fini(&bench);
}

/* One that ends while nothing runs is found and replaced. */
static void test_a_process_that_is_killed_while_idle(void **state) {
    (void)state;
    struct python_bench bench;
    char text[40];
    open_model(&bench, 1);
    ask(&bench, "pid", text, sizeof(text));
    pid_t first = atoi(text);
    assert_int_equal(kill(first, SIGKILL), 0);
    int64_t until_at = tt_clock_now() + 60 * TT_S;
    while (!python_bench_said(&bench, "it serves again")) {
        assert_true(tt_clock_now() < until_at);
        usleep(10000);
    }
    ask(&bench, "pid", text, sizeof(text));
    assert_int_not_equal(atoi(text), first);
    python_bench_unload(&bench);
    assert_int_equal(kill(atoi(text), 0), -1); /* no process outlives its model */
    python_bench_fini(&bench);
}

static void await_running(struct python_bench *bench, int32_t executor,
                          struct tt_engine_running *out) {
    int64_t until_at = tt_clock_now() + 60 * TT_S;
    while (!bench->engine->ops->watch->running(bench->engine, executor, out)) {
        assert_true(tt_clock_now() < until_at);
        usleep(1000);
    }
}

static void test_a_run_that_is_cut(void **state) {
    (void)state;
    struct python_bench bench;
    struct batch batch;
    struct tt_engine_running running;
    open_model(&bench, 1);
    fill(&batch, &bench, 2, "hang");
    tt_engine_submit(bench.engine, &batch.task);
    await_running(&bench, 0, &running);
    bench.engine->ops->watch->cut(bench.engine, &running);
    assert_ptr_equal(bench_wait(&bench.bench), &batch.task);
    assert_int_equal(batch.task.head.outcome, TT_OUTCOME_ABORTED);
    assert_int_equal(batch.task.head.last_step_done, -1);
    assert_int_equal(batch.members[0].err, TT_ERR_CANCELLED);
    assert_true(batch.task.was_cut);
    python_bench_fini(&bench);
}

/* While one process hangs, the other one serves both executors. */
static void test_two_instances(void **state) {
    (void)state;
    struct python_bench bench;
    struct batch stuck, batch;
    struct tt_engine_running running;
    char first[40], second[40];
    open_model(&bench, 2);
    fill(&stuck, &bench, 1, "hang");
    stuck.task.head.executor = 1;
    tt_engine_submit(bench.engine, &stuck.task);
    await_running(&bench, 1, &running);
    ask(&bench, "pid", first, sizeof(first));
    ask(&bench, "pid", second, sizeof(second));
    bench.engine->ops->watch->cut(bench.engine, &running);
    assert_ptr_equal(bench_wait(&bench.bench), &stuck.task);
    for (int32_t i = 0; i < 10; i++) { /* also while the other one is away */
        run(&batch, &bench, 2, "well");
        assert_good(&batch, 1);
        release(&batch);
    }
    python_bench_fini(&bench);
}

static void test_what_a_process_gets(void **state) {
    (void)state;
    struct python_bench bench;
    char text[2000];
    assert_int_equal(setenv("TUTTI_SECRET", "abc", 1), 0);
    assert_int_equal(setenv("AWS_SECRET_ACCESS_KEY", "abc", 1), 0);
    int file = open("/dev/zero", O_RDONLY); /* without O_CLOEXEC */
    assert_true(file >= 0);
    open_model(&bench, 1);
    ask(&bench, "environment", text, sizeof(text));
    assert_null(strstr(text, "SECRET"));
    assert_non_null(strstr(text, "PATH"));
    ask(&bench, "files", text, sizeof(text));
    /* Its five, the two buffers, which have a descriptor and a mapping's each, and the listing. */
    int32_t count = 1;
    for (const char *at = text; (at = strchr(at, ' ')); at++)
        count++;
    assert_in_range(count, 6, 12);
    python_bench_fini(&bench);
    close(file);
}

static void test_models_that_cannot_be_loaded(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"class TritonPythonModel:\n    def execute(self, requests:\n", "SyntaxError: "},
        {"class TritonPythonModel:\n    def execute(self, requests:\n", "model.py\", line 2"},
        {"x = 1\n", "has no class TritonPythonModel with a method execute"},
        {"import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"},
        {"class TritonPythonModel:\n    def execute(self, r): pass\n"
         "    def initialize(self, args): raise RuntimeError('no weights')\n",
         "RuntimeError: no weights"},
        {"import sys\nsys.exit(4)\n", "SystemExit: 4"},
        {"import os\nos._exit(4)\n", "its Python process ended with exit code 4"},
        {"import os\nos.kill(os.getpid(), 9)\n", "its Python process ended by signal 9"},
        {"from triton_python_backend_utils import PreferredMemory\n",
         "triton_python_backend_utils.PreferredMemory is not supported by Tutti's Python backend"},
    };
    struct python_bench bench;
    struct tt_error why;
    python_bench_init(&bench, python_interpreter());
    for (size_t i = 0; i < TT_COUNT(cases); i++) {
        python_bench_write(&bench, cases[i].text);
        assert_int_equal(python_bench_load(&bench, &signature, 1, NULL, &why), TT_ERR_INVALID);
        if (!strstr(why.text, cases[i].message) || strncmp(why.text, "m: ", 3) != 0)
            fail_msg("case %zu: %s", i, why.text);
        assert_null(bench.model);
    }
    python_bench_write(&bench, model);
    struct tt_signature other = signature;
    other.inputs[0].dtype = TT_DTYPE_BF16;
    assert_int_equal(python_bench_load(&bench, &other, 1, NULL, &why), TT_ERR_UNSUPPORTED);
    assert_string_equal(why.text,
                        "m: input 'x' is TYPE_BF16, which numpy does not have; use TYPE_FP32");
    python_bench_fini(&bench);
}

static void test_interpreters(void **state) {
    (void)state;
    struct python_bench bench;
    struct tt_error why;
    python_bench_init(&bench, "/no/such/python");
    python_bench_write(&bench, model);
    assert_int_equal(python_bench_load(&bench, &signature, 1, NULL, &why), TT_ERR_NOT_FOUND);
    assert_non_null(strstr(why.text, "cannot start the Python interpreter '/no/such/python'"));
    static const char *const configs[] = {
        "{\"parameters\":{\"EXECUTION_ENV_PATH\":{\"string_value\":\"/no/env\"}}}",
        ("{\"parameters\":{\"EXECUTION_ENV_PATH\":{\"string_value\":"
         "\"$$TRITON_MODEL_DIRECTORY/env\"}}}"),
        "{\"parameters\":{\"EXECUTION_ENV_PATH\":{\"string_value\":\"/a/env.tar.gz\"}}}"};
    static const char *const messages[] = {"there is no '/no/env/bin/python3'",
                                           "/env/bin/python3'; name the directory of a venv",
                                           "'/a/env.tar.gz' is an archive; unpack it"};
    for (size_t i = 0; i < TT_COUNT(configs); i++) {
        assert_int_not_equal(python_bench_load(&bench, &signature, 1, configs[i], &why), TT_OK);
        if (!strstr(why.text, messages[i]))
            fail_msg("%s", why.text);
    }
    assert_non_null(strstr(why.text, "m: EXECUTION_ENV_PATH"));
    python_bench_fini(&bench);
}

/* An interpreter without numpy: the usual one, but without its packages. */
static void test_an_interpreter_without_numpy(void **state) {
    (void)state;
    struct python_bench bench;
    struct tt_error why;
    char interpreter[] = "/tmp/tutti-interpreter-XXXXXX";
    int fd = mkstemp(interpreter);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "#!/bin/sh\nexec %s -S \"$@\"\n", python_interpreter()) > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(interpreter, 0700), 0);
    python_bench_init(&bench, interpreter);
    python_bench_write(&bench, model);
    assert_int_equal(python_bench_load(&bench, &signature, 1, NULL, &why), TT_ERR_INVALID);
    if (!strstr(why.text, " has no numpy (No module named 'numpy'): install it there, or name "
                          "another interpreter (--python)"))
        fail_msg("%s", why.text);
    python_bench_fini(&bench);
    unlink(interpreter);
}

static void test_a_model_that_never_loads(void **state) {
    (void)state;
    char path[] = "/tmp/tutti-python-XXXXXX.py";
    static const char text[] = "import time\ntime.sleep(3600)\n";
    struct tt_python_instances *instances = NULL;
    struct tt_error why;
    int file = mkstemps(path, 3);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, sizeof(text) - 1), sizeof(text) - 1);
    close(file);
    const struct tt_python_instances_options options = {
        .program = {.interpreter = python_interpreter(),
                    .name = "m",
                    .path = path,
                    .signature = &signature},
        .count = 2,
        .max_start_ms = 200};
    assert_int_equal(tt_python_instances_open(&options, &instances, &why), TT_ERR_INVALID);
    assert_string_equal(why.text,
                        "its Python process did not load the model within 200 ms (--max-load-ms)");
    unlink(path);
}

/* ---- the invariants ---- */

/* Begins with an idle process, as its model has been loaded; in a process without threads. */
static struct tt_python_instances *open_instances(struct tt_python_process **out_process) {
    static char path[] = "/tmp/tutti-python-XXXXXX.py";
    struct tt_python_instances *instances = NULL;
    struct tt_error why;
    int file = mkstemps(path, 3);
    if (file < 0 || write(file, model, sizeof(model) - 1) != (ssize_t)sizeof(model) - 1)
        abort();
    close(file);
    const struct tt_python_instances_options options = {
        .program = {.interpreter = python_interpreter(),
                    .name = "m",
                    .path = path,
                    .signature = &signature},
        .count = 1};
    enum tt_err err = tt_python_instances_open(&options, &instances, &why);
    unlink(path);
    if (err || tt_python_instances_take(instances, out_process, &why) != TT_PYTHON_TAKEN)
        abort();
    tt_python_instances_check(instances);
    return instances;
}

static void well(void) {
    struct tt_python_process *process;
    struct tt_python_instances *instances = open_instances(&process);
    tt_python_instances_give(instances, process, false);
    tt_python_instances_check(instances);
    tt_python_instances_close(instances);
}

static void a_busy_instance_without_a_process(void) {
    struct tt_python_process *process;
    struct tt_python_instances *instances = open_instances(&process);
    process->pid = 0;
    tt_python_instances_check(instances);
}

static void a_process_given_back_twice(void) {
    struct tt_python_process *process;
    struct tt_python_instances *instances = open_instances(&process);
    tt_python_instances_give(instances, process, false);
    tt_python_instances_give(instances, process, false);
}

static void test_breaches(void **state) {
    (void)state;
    static const struct breach breaches[] = {
        BREACH(a_busy_instance_without_a_process, "instance->process.pid > 0"),
        BREACH(a_process_given_back_twice, "instance->state == BUSY"),
    };
    assert_holds(well);
    assert_all_break(breaches, TT_COUNT(breaches));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_breaches),
        cmocka_unit_test(test_processes_that_end),
        cmocka_unit_test(test_a_process_that_is_killed_while_idle),
        cmocka_unit_test(test_a_run_that_is_cut),
        cmocka_unit_test(test_two_instances),
        cmocka_unit_test(test_what_a_process_gets),
        cmocka_unit_test(test_models_that_cannot_be_loaded),
        cmocka_unit_test(test_interpreters),
        cmocka_unit_test(test_an_interpreter_without_numpy),
        cmocka_unit_test(test_a_model_that_never_loads),
    };
    if (!python_is_there()) {
        printf("skipped: no Python interpreter with numpy\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
