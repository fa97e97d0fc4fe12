/* ONNX Runtime as an engine kind (engine/engine_kind.h): maps each form of a model to a function of
 * onnxruntime.h. The library is what its engines share. */
#include "engine/engine_kind.h"
#include "engine/onnxruntime/onnxruntime.h"
#include "engine/onnxruntime/ort_compute.h"
#include "engine/onnxruntime/ort_gpu.h"
#include "engine/onnxruntime/ort_probe.h"
#include "engine/onnxruntime/ort_versions.h"

static enum tt_err open_shared(const struct tt_engine_runtime_options *options, void **out_shared,
                               struct tt_error *why) {
    struct tt_ort_library_options where = {.path = options->onnxruntime,
                                           .arena_bytes = options->memory_bytes};
    struct tt_ort_library *library;
    enum tt_err err = tt_ort_library_open(&where, &library, why);
    if (!err)
        *out_shared = library;
    return err;
}

static void close_shared(void *take_shared) { tt_ort_library_close(take_shared); }

static enum tt_err open_engine(void *shared, const struct tt_engine_options *options,
                               struct tt_engine **out_engine, struct tt_error *why) {
    return tt_ort_engine_open(shared, options, out_engine, why);
}

static enum tt_err load_graph(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                              struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_ort_model_options load = {.name = spec->name,
                                        .path = spec->path,
                                        .batched = spec->batched,
                                        .max_batch = spec->max_batch,
                                        .optimization = spec->portable ? TT_ORT_OPTIMIZE_BASIC
                                                                       : TT_ORT_OPTIMIZE_ALL,
                                        .save_optimized = spec->save_optimized};
    return tt_ort_engine_load(engine, &load, out_model, why);
}

static enum tt_err load_stages(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                               struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_ort_slices_options load = {.name = spec->name,
                                         .directory = spec->path,
                                         .max_batch = spec->max_batch > 0 ? spec->max_batch : 1,
                                         .slot_count = spec->slot_count,
                                         .executors = spec->executors,
                                         .own_arenas = spec->own_arenas,
                                         .exit_count = spec->exit_count,
                                         .exits = spec->exits};
    return tt_ort_engine_load_slices(engine, &load, out_model, why);
}

static enum tt_err load(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                        struct tt_engine_model **out_model, struct tt_error *why) {
    struct tt_ort_cells_options cells = {.name = spec->name, .cells = spec->cells};
    switch (spec->form) {
    case TT_ENGINE_GRAPH: return load_graph(engine, spec, out_model, why);
    case TT_ENGINE_STAGES: return load_stages(engine, spec, out_model, why);
    case TT_ENGINE_CELL_SET: return tt_ort_engine_load_cells(engine, &cells, out_model, why);
    }
    return tt_fail(TT_ERR_UNSUPPORTED, why, "%s: unknown form of a model", spec->name);
}

static const char *version(const void *shared) {
    const struct tt_ort_library *library = shared;
    return library->version;
}

static const struct tt_engine_cutting cutting = {
    .version = version, .probe = tt_ort_probe, .time_nodes = tt_ort_time_nodes};

const struct tt_engine_kind tt_onnxruntime_engine_kind = {
    .traits = {.name = "onnxruntime",
               .platform = "onnxruntime_onnx",
               .needs_file = true,
               .runs_cells = true,
               .runs_on_streams = true,
               .opens_first = true},
    .open_shared = open_shared,
    .close_shared = close_shared,
    .open = open_engine,
    .load = load,
    .lay_out = tt_ort_lay_out,
    .compute = tt_ort_compute,
    .gpu = &tt_ort_gpu,
    .check_versions = tt_ort_check_versions,
    .cutting = &cutting,
};
