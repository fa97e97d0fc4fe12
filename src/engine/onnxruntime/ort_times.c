/* How long each node of a graph takes, by the runtime's own profiler. */
#include "base/sort.h"
#include "base/text.h"
#include "engine/onnxruntime/ort_check.h"
#include "engine/onnxruntime/ort_probe.h"
#include "engine/onnxruntime/ort_session.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM_UP_RUNS = 2 };

struct times {
    const struct tt_engine_probe_options *options;
    int32_t runs;
    int64_t *samples; /* [node_count][runs] */
    int32_t *counts;  /* [node_count] */
    struct tt_error *why;
};

/* Packs the graph with its nodes named "n0", "n1", ..., so that the profiler's events identify
 * them. Their own names may be missing or equal; they are restored afterwards. */
static enum tt_err pack_numbered(struct times *t, struct tt_text *out_bytes) {
    Onnx__Model *model = t->options->graph->model;
    size_t count = model->graph->n_node;
    char **names = calloc(count + 1, sizeof(*names));
    char(*numbers)[24] = calloc(count + 1, sizeof(*numbers));
    char *to = NULL;
    if (names && numbers) {
        for (size_t i = 0; i < count; i++) {
            names[i] = model->graph->node[i]->name;
            snprintf(numbers[i], sizeof(numbers[i]), "n%zu", i);
            model->graph->node[i]->name = numbers[i];
        }
        to = tt_text_reserve(out_bytes, onnx__model__get_packed_size(model));
        if (to)
            out_bytes->length += onnx__model__pack(model, (uint8_t *)to);
        for (size_t i = 0; i < count; i++)
            model->graph->node[i]->name = names[i];
    }
    free(names);
    free(numbers);
    return to ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, t->why, "out of memory");
}

static enum tt_err open_session(struct times *t, const char *scratch, OrtSession **out_session) {
    const struct tt_ort_library *library = tt_ort_probe_library(t->options);
    OrtSessionOptions *options = NULL;
    struct tt_text bytes;
    tt_text_init(&bytes);
    char prefix[4096];
    snprintf(prefix, sizeof(prefix), "%s/nodes", scratch);
    enum tt_err err = pack_numbered(t, &bytes);
    if (!err)
        err = tt_ort_session_options_new(library, TT_ORT_OPTIMIZE_NONE, &options, t->why);
    if (!err)
        err = tt_ort_check(library, library->api->EnableProfiling(options, prefix), t->why);
    if (!err)
        err = tt_ort_check(library,
                           library->api->CreateSessionFromArray(library->env, bytes.bytes,
                                                                bytes.length, options, out_session),
                           t->why);
    if (options)
        library->api->ReleaseSessionOptions(options);
    tt_text_fini(&bytes);
    return err;
}

static enum tt_err run_once(struct times *t, OrtSession *session,
                            const struct tt_synthetic_input *synthetic) {
    const struct tt_ort_library *library = tt_ort_probe_library(t->options);
    const struct tt_signature *signature = t->options->signature;
    OrtValue *outputs[TT_MAX_TENSORS] = {0};
    const char *names[TT_MAX_TENSORS];
    for (int32_t i = 0; i < signature->output_count; i++)
        names[i] = signature->outputs[i].name;
    enum tt_err err = tt_ort_session_run(library, session, signature, synthetic, names,
                                         signature->output_count, outputs, t->why);
    for (int32_t i = 0; i < signature->output_count; i++)
        if (outputs[i])
            library->api->ReleaseValue(outputs[i]);
    return err;
}

/* ---- the profiler's file ---- */

/* Records an event {"cat": "Node", "name": "n12_kernel_time", "dur": 34}. The first ones are of the
 * warm-up. */
static void take_event(struct times *t, const json_t *event, int32_t *skipped) {
    const char *kind = json_string_value(json_object_get(event, "cat"));
    const char *name = json_string_value(json_object_get(event, "name"));
    int node;
    char rest[32] = "";
    if (!kind || strcmp(kind, "Node") != 0 || !name || sscanf(name, "n%d_%31s", &node, rest) != 2 ||
        strcmp(rest, "kernel_time") != 0 || node < 0 || node >= t->options->graph->node_count)
        return;
    if (skipped[node] < WARM_UP_RUNS) {
        skipped[node]++;
        return;
    }
    /* The clock truncates to microseconds: on average by half of one. */
    if (t->counts[node] < t->runs)
        t->samples[(size_t)node * (size_t)t->runs + (size_t)t->counts[node]++] =
            json_integer_value(json_object_get(event, "dur")) * 1000 + 500;
}

static enum tt_err read_events(struct times *t, const char *path, int64_t *out_times_ns) {
    int32_t node_count = t->options->graph->node_count;
    int32_t *skipped = calloc((size_t)node_count + 1, sizeof(*skipped));
    json_error_t error;
    json_t *events = skipped ? json_load_file(path, 0, &error) : NULL;
    if (!events) {
        free(skipped);
        return skipped ? tt_fail(TT_ERR_INTERNAL, t->why, "cannot read the runtime's profile: %s",
                                 error.text)
                       : tt_fail(TT_ERR_NO_MEMORY, t->why, "out of memory");
    }
    for (size_t i = 0; i < json_array_size(events); i++)
        take_event(t, json_array_get(events, i), skipped);
    json_decref(events);
    free(skipped);
    for (int32_t i = 0; i < node_count; i++) {
        int64_t *samples = &t->samples[(size_t)i * (size_t)t->runs];
        tt_sort_int64(samples, t->counts[i]);
        out_times_ns[i] = t->counts[i] ? samples[t->counts[i] / 2] : 0;
    }
    return TT_OK;
}

static enum tt_err finish(struct times *t, OrtSession *session, int64_t *out_times_ns) {
    const struct tt_ort_library *library = tt_ort_probe_library(t->options);
    OrtAllocator *allocator;
    char *path = NULL;
    enum tt_err err =
        tt_ort_check(library, library->api->GetAllocatorWithDefaultOptions(&allocator), t->why);
    if (!err)
        err = tt_ort_check(library, library->api->SessionEndProfiling(session, allocator, &path),
                           t->why);
    if (err)
        return err;
    err = read_events(t, path, out_times_ns);
    unlink(path);
    allocator->Free(allocator, path);
    return err;
}

enum tt_err tt_ort_time_nodes(const struct tt_engine_probe_options *options,
                              enum tt_synthetic_input_kind synthetic_kind, int32_t rows,
                              int32_t runs, const char *scratch, int64_t *out_times_ns,
                              struct tt_error *why) {
    size_t nodes = (size_t)options->graph->node_count + 1;
    struct times t = {.options = options,
                      .runs = runs,
                      .samples = calloc(nodes * (size_t)runs, sizeof(*t.samples)),
                      .counts = calloc(nodes, sizeof(*t.counts)),
                      .why = why};
    OrtSession *session = NULL;
    struct tt_synthetic_input synthetic = {0};
    enum tt_err err =
        t.samples && t.counts ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!err)
        err = tt_synthetic_input_init(&synthetic, options->signature, 0, rows, options->length,
                                      synthetic_kind, why);
    if (!err)
        err = open_session(&t, scratch, &session);
    for (int32_t i = 0; !err && i < runs + WARM_UP_RUNS; i++)
        err = run_once(&t, session, &synthetic);
    if (!err)
        err = finish(&t, session, out_times_ns);
    if (session)
        tt_ort_probe_library(options)->api->ReleaseSession(session);
    tt_synthetic_input_fini(&synthetic);
    free(t.samples);
    free(t.counts);
    return err;
}
