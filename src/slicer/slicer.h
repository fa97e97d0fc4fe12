/* D1: from a model's file to stages on disk that have been checked against it.
 *
 * Life of a cut: `tt_slicer_new` loads the whole model, has the engine optimise it once and save
 * the result, takes that apart, runs it with synthetic inputs to learn its tensors and the time of
 * each node, and chooses where to cut; its tables may be read as they are. `tt_slicer_write` writes
 * the stages, loads them, and compares their answers with the whole model's, bit for bit, at
 * several batch sizes. `tt_slicer_find` does all of that unless it was done before. A cut is kept
 * in a folder named after everything that it depends on. When it is found again, its answers are
 * compared with those of the day it was made. Unused cuts are deleted (stage_folders.h).
 *
 * Asked for a number of stages of its own choice, it tries 2, 3, 4, 6, 8, 12 and 16, and takes the
 * largest before the first that costs more than 3 % of the whole model's processor time.
 *
 * Nothing else may use the engine meanwhile. */
#ifndef TT_SLICER_SLICER_H
#define TT_SLICER_SLICER_H

#include "engine/engine_kind.h"
#include "model/onnx/cut.h"
#include "model/text/digest.h"

struct tt_slicer_options {
    struct tt_engine *engine;                /* of the runtime */
    const struct tt_engine_runtime *runtime; /* of a kind with `cutting` */
    const char *name;                        /* for messages */
    const char *path;                        /* of the ONNX file */
    bool batched;
    int32_t max_batch;
    struct tt_cut_request cut; /* without `batched` and `preferred` */
    int32_t length;            /* what variable dimensions are, for times; 0: 16 */
    int32_t rows;              /* the batch that times are measured with; 0: 1 */
};

struct tt_slicer {
    struct tt_slicer_options options;
    char scratch[256];
    struct tt_engine_model *whole;
    struct tt_onnx_graph *graph; /* optimised, its tables filled in */
    struct tt_engine_probe_report probe;
    struct tt_cut_plan *plan;
    int32_t *preferred; /* per node, the batch size it runs best at; of a cut by batch, else NULL */
    char asked[512];    /* "stages 4" */
    char times[128];    /* where times are from */
};

/* Errors: those of loading, probing and choosing; the sentence begins with the name. */
TT_MUST_CHECK enum tt_err tt_slicer_new(const struct tt_slicer_options *options,
                                        struct tt_slicer **out_slicer, struct tt_error *why);
void tt_slicer_free(struct tt_slicer *take_slicer);
/* Makes `directory`, which must not be there. Errors: IO; INTERNAL (the stages answer otherwise
 * than the whole; nothing is left). */
TT_MUST_CHECK enum tt_err tt_slicer_write(struct tt_slicer *self, const char *directory,
                                          struct tt_error *why);
/* What stages cost: processor time of the process for a task of all stages next to one of the whole
 * model, a batch of `rows`, alternating. */
struct tt_slicer_cost {
    int64_t whole_ns, stages_ns; /* medians of the runs */
    int64_t ratio_ppm;           /* the median over pairs of runs of stages / whole */
};
/* `directory` as tt_slicer_write made it; `runs` >= 1 pairs. */
TT_MUST_CHECK enum tt_err tt_slicer_cost(struct tt_slicer *self, const char *directory,
                                         int32_t rows, int32_t runs,
                                         struct tt_slicer_cost *out_cost, struct tt_error *why);
/* The folder of the cut, made if need be: in `home`, where that can be written, else below
 * $XDG_CACHE_HOME or ~/.cache. `out_made` (may be NULL): was it made now? */
TT_MUST_CHECK enum tt_err tt_slicer_find(const struct tt_slicer_options *options, const char *home,
                                         char *out_directory, size_t capacity, bool *out_made,
                                         struct tt_error *why);

#endif
