/* threaded */
/* slow */
/* Models in Python: batches, and errors of the model. */
#include "unit/engine/python_model.h"

#include "base/prng.h"
#include "unit/seed.h"

static void test_batches(void **state) {
    (void)state;
    struct python_bench bench;
    open_model(&bench, 1);
    assert_true(python_bench_said(&bench, "model m: Python process 0: initialized m_0"));
    for (int32_t count = 1; count <= MEMBERS; count++) {
        struct batch batch;
        run(&batch, &bench, count, "well");
        assert_int_equal(batch.task.head.outcome, TT_OUTCOME_DONE);
        for (int32_t m = 0; m < count; m++)
            assert_good(&batch, m);
        assert_true(batch.task.gathered_bytes > 0);
        release(&batch);
    }
    char text[200];
    ask(&bench, "id", text, sizeof(text));
    assert_string_equal(text, "the-id");
    python_bench_unload(&bench);
    assert_true(python_bench_said(&bench, "finalized m1"));
    python_bench_fini(&bench);
}

/* More results than the process has buffers; all stay as they are, also after the model has gone.
 */
static void test_results_that_are_kept(void **state) {
    (void)state;
    enum { BATCHES = 10 };
    static struct batch batches[BATCHES];
    struct python_bench bench;
    open_model(&bench, 1);
    const struct tt_engine_ops *ops = bench.engine->ops;
    for (int32_t i = 0; i < BATCHES; i++)
        run(&batches[i], &bench, MEMBERS, i % 3 ? "well" : "long");
    for (int32_t i = 0; i < BATCHES; i += 2)
        for (int32_t m = 0; m < MEMBERS; m++) {
            assert_good(&batches[i], m);
            ops->result_release(batches[i].members[m].result);
        }
    python_bench_unload(&bench);
    for (int32_t i = 1; i < BATCHES; i += 2)
        for (int32_t m = 0; m < MEMBERS; m++) {
            struct tt_tensor_view view;
            ops->output(batches[i].members[m].result, 0, m, 1, &view);
            int32_t first;
            memcpy(&first, view.bytes, sizeof(first));
            assert_int_equal(first, 2 * (1000 * m + m * COLUMNS));
            ops->result_release(batches[i].members[m].result);
        }
    python_bench_fini(&bench);
}

struct fault {
    const char *word;
    enum tt_err err;
    const char *message;
    bool is_alone; /* the other members of the batch have answers */
};

static void test_faults_of_the_model(void **state) {
    (void)state;
    static const struct fault faults[] = {
        {"raise", TT_ERR_INTERNAL, "the Python model failed: ", false},
        {"raise", TT_ERR_INTERNAL, "ValueError: no such word", false},
        {"refuse", TT_ERR_INVALID, "bad word", true},
        {"float", TT_ERR_INTERNAL,
         "output 'y' of the Python model is float64; config.pbtxt says TYPE_INT32, which is int32",
         true},
        {"shape", TT_ERR_INTERNAL,
         "output 'y' of the Python model has shape [1,2]; config.pbtxt says [-1,3]", true},
        {"rows", TT_ERR_INTERNAL, "has shape [0,3]; dimension 0 must be 1", true},
        {"missing", TT_ERR_INTERNAL, "the response of the Python model has no output 't'", true},
        {"parameters", TT_ERR_INTERNAL, "InferenceRequest.parameters is not supported", false},
        {"exec", TT_ERR_INTERNAL, "a model that calls models is not supported", false},
    };
    struct python_bench bench;
    open_model(&bench, 1);
    for (size_t i = 0; i < TT_COUNT(faults); i++) {
        struct batch batch;
        run(&batch, &bench, 3, faults[i].word);
        assert_int_equal(batch.members[0].err, faults[i].err);
        if (!strstr(batch.whys[0].text, faults[i].message))
            fail_msg("%s: %s", faults[i].word, batch.whys[0].text);
        for (int32_t m = 1; m < 3 && faults[i].is_alone; m++)
            assert_good(&batch, m);
        for (int32_t m = 1; m < 3 && !faults[i].is_alone; m++)
            assert_int_equal(batch.members[m].err, faults[i].err);
        release(&batch);
        run(&batch, &bench, 3, "well"); /* it serves on */
        assert_good(&batch, 2);
        release(&batch);
    }
    python_bench_fini(&bench);
}

/* Random batches of several models' shapes, against what y and t must be. */
static void test_random_batches(void **state) {
    (void)state;
    struct python_bench bench;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(23), 0);
    open_model(&bench, 2);
    for (int32_t round = 0; round < 200; round++) {
        struct batch batches[2];
        int32_t count = 1 + (int32_t)tt_prng_below(&prng, 2);
        for (int32_t i = 0; i < count; i++) {
            fill(&batches[i], &bench, 1 + (int32_t)tt_prng_below(&prng, MEMBERS),
                 tt_prng_below(&prng, 8) ? "well" : "long");
            batches[i].task.head.executor = i;
            tt_engine_submit(bench.engine, &batches[i].task);
        }
        for (int32_t i = 0; i < count; i++)
            (void)bench_wait(&bench.bench);
        for (int32_t i = 0; i < count; i++) {
            for (int32_t m = 0; m < batches[i].task.member_count; m++)
                assert_good(&batches[i], m);
            release(&batches[i]);
        }
    }
    python_bench_fini(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_results_that_are_kept),
        cmocka_unit_test(test_faults_of_the_model),
        cmocka_unit_test(test_random_batches),
    };
    if (!python_is_there()) {
        printf("skipped: no Python interpreter with numpy\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
