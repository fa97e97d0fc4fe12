/* Which requests are sampled, and that records come back as they were put, or are counted. */
#include "net/telemetry/otlp_json.h"

#include "base/instant.h"
#include "unit/seed.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_trace_strings strings = {
    .method = "POST", .path = "/v2/models/a/infer", .model = "a", .version = "", .why = NULL};

static struct tt_trace_context context_of(struct tt_prng *prng, bool is_sampled) {
    struct tt_trace_context context = {.is_sampled = is_sampled};
    for (int i = 0; i < TT_TRACE_ID_BYTES; i++)
        context.trace_id[i] = (uint8_t)tt_prng_below(prng, 256);
    context.span_id[0] = 1;
    return context;
}

static void test_the_client_decides(void **state) {
    (void)state;
    struct tt_tracer tracer = {0};
    struct tt_prng prng;
    uint64_t seed = test_seed(1);
    tt_prng_init(&prng, seed, 99);
    for (int64_t sample = 0; sample <= TT_TRACER_ALL; sample += TT_TRACER_ALL) {
        assert_int_equal(tt_tracer_init(&tracer, 1, 4096, sample, seed), TT_OK);
        for (int i = 0; i < 100; i++) {
            struct tt_trace_context parent = context_of(&prng, i % 2);
            memcpy(parent.state, "a=1", 3);
            parent.state_bytes = 3;
            struct tt_traced traced;
            tt_tracer_begin(&tracer, 0, &parent, &traced);
            assert_int_equal(traced.context.is_sampled, i % 2);
            assert_true(traced.has_parent);
            assert_memory_equal(traced.context.trace_id, parent.trace_id, TT_TRACE_ID_BYTES);
            assert_memory_equal(traced.parent_id, parent.span_id, TT_SPAN_ID_BYTES);
            assert_memory_not_equal(traced.context.span_id, parent.span_id, TT_SPAN_ID_BYTES);
            assert_int_equal(traced.context.state_bytes, 3);
        }
        tt_tracer_fini(&tracer);
    }
}

/* Without a client's word the ratio decides, by the trace id, so that all servers decide alike. */
static void test_the_ratio(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    struct tt_tracer tracer = {0}, other = {0};
    uint64_t seed = test_seed(2);
    assert_int_equal(tt_tracer_init(&tracer, 2, 4096, TT_TRACER_ALL / 4, seed), TT_OK);
    assert_int_equal(tt_tracer_init(&other, 1, 4096, TT_TRACER_ALL / 2, seed), TT_OK);
    int sampled = 0;
    for (int i = 0; i < COUNT; i++) {
        struct tt_traced traced, of_other;
        tt_tracer_begin(&tracer, 0, NULL, &traced);
        tt_tracer_begin(&other, 0, NULL, &of_other); /* the same seed: the same id */
        assert_memory_equal(traced.context.trace_id, of_other.context.trace_id, TT_TRACE_ID_BYTES);
        assert_false(traced.has_parent);
        sampled += traced.context.is_sampled;
        if (traced.context.is_sampled)
            assert_true(of_other.context.is_sampled);
    }
    /* Six standard deviations of a binomial distribution are 822. */
    assert_in_range(sampled, COUNT / 4 - 822, COUNT / 4 + 822);
    struct tt_traced first, second;
    tt_tracer_begin(&tracer, 0, NULL, &first);
    tt_tracer_begin(&tracer, 1, NULL, &second);
    assert_memory_not_equal(first.context.trace_id, second.context.trace_id, TT_TRACE_ID_BYTES);
    tt_tracer_fini(&tracer);
    tt_tracer_fini(&other);
}

/* Random records over a small ring, taken now and then: what is put comes back in order, and what
 * had no room is counted. */
static void test_records_come_back(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    struct tt_tracer tracer = {0};
    struct tt_prng prng;
    uint64_t seed = test_seed(3);
    struct tt_text records;
    tt_text_init(&records);
    tt_prng_init(&prng, seed, 7);
    assert_int_equal(tt_tracer_init(&tracer, 1, 16384, TT_TRACER_ALL, seed), TT_OK);
    int64_t next = 0, taken = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        char model[300] = "", path[300] = "";
        memset(model, 'm', tt_prng_below(&prng, sizeof(model)));
        memset(path, 'p', tt_prng_below(&prng, sizeof(path)));
        struct tt_traced traced;
        tt_tracer_begin(&tracer, 0, NULL, &traced);
        const struct tt_trace_strings some = {.method = "POST", .path = path, .model = model};
        const struct tt_trace_facts facts = {.received_at = i, .rows = (int32_t)strlen(model)};
        tt_tracer_put(&tracer, 0, &traced, &facts, &some, NULL, 0);
        if (tt_prng_below(&prng, 30) && i + 1 < COUNT)
            continue;
        int32_t count;
        do {
            tt_text_clear(&records);
            count = tt_tracer_take(&tracer, &records, 1 + tt_prng_below(&prng, 8192));
            size_t at = 0;
            for (int32_t k = 0; k < count; k++) {
                struct tt_trace_record record;
                struct tt_trace_strings back;
                const char *trace_state;
                tt_trace_record_read(records.bytes + at, &record, &trace_state, &back);
                at += record.size_bytes;
                assert_true(record.facts.received_at >= next);
                next = record.facts.received_at + 1;
                int32_t length = record.facts.rows;
                int32_t kept =
                    length < TT_TRACER_STRING_BYTES ? length : TT_TRACER_STRING_BYTES - 1;
                assert_int_equal(strlen(back.model), kept);
                assert_string_equal(back.method, "POST");
                assert_string_equal(back.why, "");
            }
            assert_int_equal(at, records.length);
            taken += count;
        } while (count > 0);
    }
    assert_int_equal(taken + tt_tracer_lost(&tracer), COUNT);
    assert_in_range(tt_tracer_lost(&tracer), 1, COUNT - 1); /* both happened */
    tt_text_fini(&records);
    tt_tracer_fini(&tracer);
}

static void test_what_is_not_sampled_is_not_put(void **state) {
    (void)state;
    struct tt_tracer tracer = {0};
    struct tt_traced traced;
    struct tt_text records;
    tt_text_init(&records);
    assert_int_equal(tt_tracer_init(&tracer, 1, 4096, 0, 5), TT_OK);
    tt_tracer_begin(&tracer, 0, NULL, &traced);
    tt_tracer_put(&tracer, 0, &traced, &(struct tt_trace_facts){0}, &strings, NULL, 0);
    assert_int_equal(tt_tracer_take(&tracer, &records, 4096), 0);
    assert_int_equal(tt_tracer_lost(&tracer), 0);
    tt_text_fini(&records);
    tt_tracer_fini(&tracer);
}

/* --- spans --- */

static json_t *spans_with(const struct tt_trace_facts *facts, const struct tt_trace_strings *of,
                          const struct tt_trace_step *steps, int32_t step_count) {
    struct tt_tracer tracer = {0};
    struct tt_traced traced;
    struct tt_text records, body;
    struct tt_otlp_resource resource = {
        .service_version = "1", .host_name = "a \"host\"", .process_id = 7};
    tt_text_init(&records);
    tt_text_init(&body);
    assert_int_equal(tt_tracer_init(&tracer, 1, 16384, TT_TRACER_ALL, 5), TT_OK);
    tt_tracer_begin(&tracer, 0, NULL, &traced);
    tt_tracer_put(&tracer, 0, &traced, facts, of, steps, step_count);
    int32_t count = tt_tracer_take(&tracer, &records, 16384);
    assert_int_equal(count, 1);
    tt_otlp_write(&resource, &records, count, 1000, &body);
    json_error_t error;
    json_t *root = json_loadb(body.bytes, body.length, 0, &error);
    if (!root)
        fail_msg("%s: %s", error.text, body.bytes);
    json_t *scopes =
        json_object_get(json_array_get(json_object_get(root, "resourceSpans"), 0), "scopeSpans");
    json_t *spans = json_incref(json_object_get(json_array_get(scopes, 0), "spans"));
    json_decref(root);
    tt_text_fini(&records);
    tt_text_fini(&body);
    tt_tracer_fini(&tracer);
    return spans;
}

static json_t *spans_of(const struct tt_trace_facts *facts, const struct tt_trace_strings *of) {
    return spans_with(facts, of, NULL, 0);
}

static int64_t instant_of(const json_t *span, const char *key) {
    return atoll(json_string_value(json_object_get(span, key)));
}

static const json_t *span_of(const json_t *spans, const char *name) {
    for (size_t i = 0; i < json_array_size(spans); i++) {
        const json_t *span = json_array_get(spans, i);
        if (strcmp(json_string_value(json_object_get(span, "name")), name) == 0)
            return span;
    }
    return NULL;
}

static void expect_times(const json_t *spans, const char *name, int64_t from, int64_t until) {
    const json_t *span = span_of(spans, name);
    assert_non_null(span);
    assert_int_equal(instant_of(span, "startTimeUnixNano"), from + 1000);
    assert_int_equal(instant_of(span, "endTimeUnixNano"), until + 1000);
}

static void test_the_spans_of_an_answer(void **state) {
    (void)state;
    const struct tt_trace_facts facts = {.received_at = 10,
                                         .submitted_at = 20,
                                         .started_at = 50,
                                         .computed_at = 90,
                                         .ended_at = 95,
                                         .input_ns = 3,
                                         .infer_ns = 30,
                                         .since_at = 20,
                                         .deadline_at = 20 + 5 * TT_MS,
                                         .rows = 2,
                                         .batch_rows = 8,
                                         .status = 200,
                                         .grpc_status = -1,
                                         .is_one_run = true};
    json_t *spans = spans_of(&facts, &strings);
    assert_int_equal(json_array_size(spans), 6);
    expect_times(spans, "POST infer", 10, 95);
    expect_times(spans, "receive", 10, 20);
    expect_times(spans, "queue", 20, 50);
    expect_times(spans, "batch", 50, 90);
    expect_times(spans, "run", 53, 83);
    expect_times(spans, "send", 90, 95);
    json_decref(spans);
}

/* It has batches, but no end of the last one. */
static void test_the_spans_of_an_ensemble(void **state) {
    (void)state;
    const struct tt_trace_facts facts = {.received_at = 10,
                                         .submitted_at = 20,
                                         .started_at = 50,
                                         .ended_at = 95,
                                         .deadline_at = TT_NEVER,
                                         .rows = 1,
                                         .status = 200,
                                         .grpc_status = -1};
    json_t *spans = spans_of(&facts, &strings);
    assert_int_equal(json_array_size(spans), 4);
    expect_times(spans, "queue", 20, 50);
    expect_times(spans, "batch", 50, 95);
    json_decref(spans);
}

static const json_t *attribute_of(const json_t *span, const char *key, const char *type) {
    const json_t *all = json_object_get(span, "attributes");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        if (strcmp(json_string_value(json_object_get(one, "key")), key) == 0)
            return json_object_get(json_object_get(one, "value"), type);
    }
    return NULL;
}

/* A span for each step, whose times lie within the request's, whatever the clock says. */
static void test_the_spans_of_steps(void **state) {
    (void)state;
    const struct tt_trace_facts facts = {.received_at = 10,
                                         .submitted_at = 20,
                                         .started_at = 50,
                                         .ended_at = 95,
                                         .deadline_at = TT_NEVER,
                                         .rows = 1,
                                         .status = 500,
                                         .grpc_status = -1};
    struct tt_trace_step steps[TT_TRACER_STEPS] = {{.submitted_at = 20,
                                                    .started_at = 30,
                                                    .ended_at = 40,
                                                    .deadline_at = 40 + 2 * TT_MS,
                                                    .number = 2,
                                                    .batch_rows = 8,
                                                    .model = "words"},
                                                   {.submitted_at = 40,
                                                    .ended_at = 90,
                                                    .deadline_at = TT_NEVER,
                                                    .number = 1,
                                                    .is_failed = true,
                                                    .model = "a \"b\""}};
    json_t *spans = spans_with(&facts, &strings, steps, 2);
    assert_int_equal(json_array_size(spans), 5);
    expect_times(spans, "receive", 10, 20);
    expect_times(spans, "step words", 20, 40);
    expect_times(spans, "step a \"b\"", 40, 90);
    expect_times(spans, "send", 90, 95);
    const json_t *first = span_of(spans, "step words"), *second = span_of(spans, "step a \"b\"");
    assert_string_equal(json_string_value(attribute_of(first, "tutti.step", "intValue")), "2");
    assert_string_equal(json_string_value(attribute_of(first, "tutti.batch_rows", "intValue")),
                        "8");
    assert_true(json_number_value(attribute_of(first, "tutti.slack_ms", "doubleValue")) == 2.0);
    assert_null(json_object_get(first, "status"));
    assert_null(attribute_of(second, "tutti.queue_ms", "doubleValue"));
    assert_null(attribute_of(second, "tutti.slack_ms", "doubleValue"));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(second, "status"), "code")),
                     2);
    json_decref(spans);
    for (int i = 0; i < TT_TRACER_STEPS; i++) /* as many as there can be, of wild times */
        steps[i] = (struct tt_trace_step){.submitted_at = 1000 - 20 * i,
                                          .ended_at = 10 * i,
                                          .deadline_at = TT_NEVER,
                                          .number = i};
    spans = spans_with(&facts, &strings, steps, TT_TRACER_STEPS);
    assert_int_equal(json_array_size(spans), 3 + TT_TRACER_STEPS);
    for (size_t i = 2; i < json_array_size(spans); i++) {
        const json_t *span = json_array_get(spans, i);
        int64_t from = instant_of(span, "startTimeUnixNano");
        assert_in_range(from, 1020, 1095);
        assert_in_range(instant_of(span, "endTimeUnixNano"), from, 1095);
    }
    json_decref(spans);
}

static void test_the_spans_of_those_that_came_less_far(void **state) {
    (void)state;
    struct tt_trace_facts facts = {.received_at = 10,
                                   .ended_at = 30,
                                   .deadline_at = TT_NEVER,
                                   .status = 404,
                                   .grpc_status = -1};
    json_t *spans = spans_of(&facts, &strings);
    assert_int_equal(json_array_size(spans), 2);
    expect_times(spans, "receive", 10, 30);
    assert_null(json_object_get(span_of(spans, "POST infer"), "status")); /* the client's fault */
    json_decref(spans);
    facts.submitted_at = 12;
    facts.status = 503;
    struct tt_trace_strings dropped = strings;
    dropped.why = "it \"waited\" \xc3"; /* cut off in a letter */
    spans = spans_of(&facts, &dropped);
    assert_int_equal(json_array_size(spans), 3);
    expect_times(spans, "queue", 12, 30);
    const json_t *status = json_object_get(span_of(spans, "POST infer"), "status");
    assert_int_equal(json_integer_value(json_object_get(status, "code")), 2);
    assert_string_equal(json_string_value(json_object_get(status, "message")),
                        "it \"waited\" \xef\xbf\xbd");
    json_decref(spans);
}

/* Whatever the instants are, children lie within their parents. */
static void test_times_nest(void **state) {
    (void)state;
    struct tt_prng prng;
    tt_prng_init(&prng, test_seed(4), 0);
    for (int i = 0; i < 2000; i++) {
        struct tt_trace_facts facts = {.received_at = 1, .deadline_at = TT_NEVER, .grpc_status = 0};
        facts.submitted_at = 1 + (int64_t)tt_prng_below(&prng, 20);
        facts.started_at = (int64_t)tt_prng_below(&prng, 60);
        facts.computed_at = (int64_t)tt_prng_below(&prng, 100);
        facts.ended_at = facts.submitted_at + (int64_t)tt_prng_below(&prng, 60);
        facts.input_ns = (int64_t)tt_prng_below(&prng, 30);
        facts.infer_ns = (int64_t)tt_prng_below(&prng, 60);
        facts.is_one_run = tt_prng_below(&prng, 2);
        struct tt_trace_strings grpc = strings;
        grpc.path = "inference.GRPCInferenceService/ModelInfer";
        json_t *spans = spans_of(&facts, &grpc);
        for (size_t k = 1; k < json_array_size(spans); k++) {
            const json_t *span = json_array_get(spans, k), *parent = NULL;
            const char *wanted = json_string_value(json_object_get(span, "parentSpanId"));
            for (size_t p = 0; p < json_array_size(spans); p++) {
                const json_t *other = json_array_get(spans, p);
                if (strcmp(json_string_value(json_object_get(other, "spanId")), wanted) == 0)
                    parent = other;
            }
            assert_non_null(parent);
            int64_t from = instant_of(span, "startTimeUnixNano");
            int64_t until = instant_of(span, "endTimeUnixNano");
            assert_true(from <= until);
            assert_true(from >= instant_of(parent, "startTimeUnixNano"));
            assert_true(until <= instant_of(parent, "endTimeUnixNano"));
        }
        json_decref(spans);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_client_decides),
        cmocka_unit_test(test_the_ratio),
        cmocka_unit_test(test_records_come_back),
        cmocka_unit_test(test_what_is_not_sampled_is_not_put),
        cmocka_unit_test(test_the_spans_of_an_answer),
        cmocka_unit_test(test_the_spans_of_an_ensemble),
        cmocka_unit_test(test_the_spans_of_steps),
        cmocka_unit_test(test_the_spans_of_those_that_came_less_far),
        cmocka_unit_test(test_times_nest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
