/* Tables of lengths and of steps: what is read, what is drawn, what is refused and how; and models
 * made of them (L3, L6). */
#include "lab/scenario/lengths.h"

#include "base/text.h"
#include "lab/experiment/experiment.h"
#include "profile/step_table.h"
#include "unit/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PLACE TUTTI_BUILD_DIR "/test_lengths.csv"

static void put(const char *text) {
    struct tt_text out;
    struct tt_error why;
    tt_text_init(&out);
    tt_text_puts(&out, text);
    assert_int_equal(tt_text_write_file(PLACE, &out, &why), TT_OK);
    tt_text_fini(&out);
}

static void put_percentiles(const char *head, int32_t until) {
    struct tt_text text;
    struct tt_error why;
    tt_text_init(&text);
    tt_text_puts(&text, head);
    for (int32_t p = 0; p <= until; p++)
        tt_text_printf(&text, "%d,%d,%d\n", p, 10 + p, 1 + 2 * p);
    assert_int_equal(tt_text_write_file(PLACE, &text, &why), TT_OK);
    tt_text_fini(&text);
}

static void test_lengths_are_read_and_drawn(void **state) {
    (void)state;
    struct tt_lengths lengths = {0};
    struct tt_error why = {""};
    put_percentiles("percentile,in,out\n", 100);
    assert_int_equal(tt_lengths_read(PLACE, "in", "out", &lengths, &why), TT_OK);
    assert_int_equal(lengths.input[0], 10);
    assert_int_equal(lengths.input[100], 110);
    assert_int_equal(lengths.output[50], 101);
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(7), 7);
    int64_t sum = 0;
    for (int32_t i = 0; i < 20000; i++) {
        int32_t input, output;
        tt_lengths_draw(&lengths, &prng, &input, &output);
        assert_in_range(input, 10, 110);
        assert_true(abs(output - (2 * (input - 10) + 1)) <= 1); /* of one percentile */
        sum += input;
    }
    assert_in_range(sum / 20000, 59, 61);
    /* a column that is not asked for stays */
    assert_int_equal(tt_lengths_read(PLACE, "", "in", &lengths, &why), TT_OK);
    assert_int_equal(lengths.input[100], 110);
    assert_int_equal(lengths.output[100], 110);
}

static void put_tail(const char *tail) {
    struct tt_text text;
    struct tt_error why;
    tt_text_init(&text);
    tt_text_puts(&text, "percentile,in,out\n");
    for (int32_t p = 0; p < 100; p++)
        tt_text_printf(&text, "%d,50,70\n", p);
    tt_text_puts(&text, tail);
    assert_int_equal(tt_text_write_file(PLACE, &text, &why), TT_OK);
    tt_text_fini(&text);
}

/* Between 99 and 100 draws follow the rows that are there: of the last percent half are at most
 * 60, 90 of 100 at most 100, none more than 330. */
static void test_the_last_percent_is_drawn_by_its_rows(void **state) {
    (void)state;
    struct tt_lengths lengths = {0};
    struct tt_error why = {""};
    put_tail("99.5,60,80\n99.9,100,90\n100,330,400\n");
    assert_int_equal(tt_lengths_read(PLACE, "in", "out", &lengths, &why), TT_OK);
    assert_int_equal(lengths.tail_count, 2);
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(3), 3);
    enum { DRAWS = 2000000 };
    int32_t above[4] = {0}, longest = 0; /* than 50, 60, 100, 215 (halfway to 330) */
    const int32_t marks[] = {50, 60, 100, 215};
    for (int32_t i = 0; i < DRAWS; i++) {
        int32_t input, output;
        tt_lengths_draw(&lengths, &prng, &input, &output);
        assert_in_range(input, 50, 330);
        assert_true(input <= 60 ? output <= 80 : output > 79);
        for (int32_t m = 0; m < 4; m++)
            above[m] += input > marks[m];
        longest = input > longest ? input : longest;
    }
    assert_in_range(above[0], DRAWS / 1000 * 9, DRAWS / 100);
    assert_in_range(above[1], DRAWS / 1000 * 4, DRAWS / 1000 * 5);
    assert_in_range(above[2], DRAWS / 10000 * 9, DRAWS / 10000 * 11);
    assert_in_range(above[3], DRAWS / 10000 * 4, DRAWS / 10000 * 6);
    assert_in_range(longest, 320, 330);
    /* A table without such rows has no tail, whatever was read before. */
    put_tail("100,330,400\n");
    assert_int_equal(tt_lengths_read(PLACE, "in", "out", &lengths, &why), TT_OK);
    assert_int_equal(lengths.tail_count, 0);
    /* What has no column keeps what it was, in the tail, too. */
    struct tt_lengths silent = {0};
    put_tail("99.5,60,80\n100,330,400\n");
    assert_int_equal(tt_lengths_read(PLACE, "in", "", &silent, &why), TT_OK);
    assert_int_equal(silent.tail[0].lengths[1], 0);
}

static void refused_lengths(const char *says) {
    struct tt_lengths lengths = {0};
    struct tt_error why = {""};
    assert_int_equal(tt_lengths_read(PLACE, "in", "", &lengths, &why), TT_ERR_INVALID);
    if (!strstr(why.text, says))
        fail_msg("'%s' does not say '%s'", why.text, says);
}

static void test_wrong_lengths_are_refused(void **state) {
    (void)state;
    put("in\n1\n");
    refused_lengths(":1: lengths need the column percentile");
    put("percentile,out\n0,1\n");
    refused_lengths("no column is called 'in'");
    put("percentile,in\n0,5\n1,4\n");
    refused_lengths(":3: column in falls");
    put_percentiles("percentile,in,out\n", 99);
    refused_lengths("percentile 100 is missing");
    put("percentile,in\n0,many\n");
    refused_lengths(":2:");
    put_tail("99.5,40,80\n100,330,400\n");
    refused_lengths(":102: rows between 99 and 100 must ascend");
    put_tail("99.5,60,80\n99.4,70,80\n100,330,400\n");
    refused_lengths(":103: rows between 99 and 100 must ascend");
    put_tail("99.5,331,80\n100,330,400\n");
    refused_lengths("a row between 99 and 100 is above percentile 100");
    put("percentile,in\n0,5\n99.5,6\n");
    refused_lengths(":3: rows between 99 and 100 come after that of 99");
    struct tt_text many;
    tt_text_init(&many);
    for (int32_t i = 0; i <= TT_LENGTHS_MAX_TAIL; i++)
        tt_text_printf(&many, "99.%02d,60,80\n", i + 1);
    put_tail(tt_text_string(&many));
    tt_text_fini(&many);
    refused_lengths(":118: more than 16 rows between 99 and 100");
}

static void test_steps_are_read(void **state) {
    (void)state;
    struct tt_step_table table;
    struct tt_error why = {""};
    put("step,kind,batch,latency_ns\na,static,1,100\na,static,4,400\nb,decoder,1,50\nb,decoder,4,"
        "80\n");
    assert_int_equal(tt_step_table_read(PLACE, 0, &table, &why), TT_OK);
    assert_int_equal(table.count, 2);
    assert_string_equal(table.names[1], "b");
    assert_int_equal(table.kinds[1], TT_STEP_DECODER);
    assert_int_equal(tt_profile_latency(table.profiles[0], 2, 0), 200);
    assert_int_equal(tt_profile_latency(table.profiles[1], 4, 0), 80);
    tt_step_table_fini(&table);
}

static void refused_steps(const char *text, const char *says) {
    struct tt_step_table table;
    struct tt_error why = {""};
    put(text);
    assert_int_equal(tt_step_table_read(PLACE, 0, &table, &why), TT_ERR_INVALID);
    if (!strstr(why.text, says))
        fail_msg("'%s' does not say '%s'", why.text, says);
}

static void test_wrong_steps_are_refused(void **state) {
    (void)state;
    refused_steps("step,batch,latency_ns\n", "needs the columns step, kind");
    refused_steps("step,kind,batch,latency_ns\n", "there is no step");
    refused_steps("step,kind,batch,latency_ns\na,recurrent,1,5\n", ":2: kind is 'recurrent'");
    refused_steps("step,kind,batch,latency_ns\na,static,1,0\n", ":2:");
    refused_steps("step,kind,batch,latency_ns\na,static,1,5\nb,static,1,5\na,static,2,5\n",
                  ":4: step 'a' goes on here");
    refused_steps("step,kind,batch,latency_ns\na,static,2,5\nb,static,1,5\n", "step 'a'");
}

static const char *build_model(const char *model) {
    static struct tt_error why;
    struct tt_text text;
    struct tt_experiment experiment;
    struct tt_scenario scenario;
    tt_text_init(&text);
    tt_text_printf(&text, "device { } load { rate: 1 } model { name: \"M\" %s }", model);
    assert_int_equal(tt_text_write_file(PLACE, &text, &why), TT_OK);
    tt_text_fini(&text);
    why.text[0] = '\0';
    assert_int_equal(tt_experiment_open(&experiment, PLACE, &why), TT_OK);
    if (tt_experiment_build(&experiment, &scenario, &why) == TT_OK) {
        /* of the whole: an encoder as often as the input is long, a decoder 3 times */
        assert_int_equal(tt_profile_latency(scenario.models[0].step_model.whole, 1, 4), 4300);
        tt_scenario_fini(&scenario);
    }
    tt_experiment_close(&experiment);
    return why.text;
}

#define ENCODER "step { name: \"e\" kind: ENCODER profile { linear { beta_ms: 0.001 } } } "
#define DECODER "step { name: \"d\" kind: DECODER profile { linear { beta_ms: 0.0001 } } } "

static void test_recurrent_models_need_lengths(void **state) {
    (void)state;
    assert_non_null(strstr(build_model(ENCODER DECODER "output_length: 3"),
                           "has encoder steps: say how long its inputs are"));
    assert_non_null(strstr(build_model(ENCODER DECODER "length: 4"),
                           "has decoder steps: say how long its outputs are"));
    assert_string_equal(build_model(ENCODER DECODER "length: 4 output_length: 3"), "");
    assert_non_null(strstr(build_model("step_file: \"no.csv\""), "the table 'no.csv' cannot be"));
    assert_non_null(strstr(build_model(DECODER "lengths { file: \"no.csv\" output: \"o\" }"),
                           "the lengths 'no.csv' cannot be read"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths_are_read_and_drawn),
        cmocka_unit_test(test_the_last_percent_is_drawn_by_its_rows),
        cmocka_unit_test(test_wrong_lengths_are_refused),
        cmocka_unit_test(test_steps_are_read),
        cmocka_unit_test(test_wrong_steps_are_refused),
        cmocka_unit_test(test_recurrent_models_need_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
