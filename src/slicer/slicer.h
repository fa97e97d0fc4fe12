/* D1: cuts a model file into stages on disk and checks them against the whole model.
 *
 * Life of a cut: `tt_slicer_new` loads the whole model, has the engine optimise it once, and saves
 * and parses the result. It runs the model with synthetic inputs to learn its tensors and the time
 * of each node, and chooses where to cut; a caller that only needs the tables reads them here.
 * `tt_slicer_write` writes the stages, loads them, and compares their outputs with the whole
 * model's, bit for bit, at several batch sizes. `tt_slicer_find` does all of that unless the cut
 * exists. Cuts are kept in folders named after everything that they depend on. A folder that is
 * found must reproduce the outputs noted when it was made. Unused folders are removed
 * (stage_folders.h).
 *
 * If the number of stages is left to the slicer, it tries 2, 3, 4, 6, 8, 12 and 16. It takes the
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
    bool portable; /* stages for any device, not for this machine's processor */
    int32_t max_batch;
    struct tt_cut_request cut; /* without `batched` and `preferred` */
    int32_t length;            /* of variable dimensions when times are measured; 0: 16 */
    int32_t rows;              /* the batch for which times are measured; 0: 1 */
};

struct tt_slicer {
    struct tt_slicer_options options;
    char scratch[256];
    struct tt_engine_model *whole;
    struct tt_onnx_graph *graph; /* optimised, with its tables */
    struct tt_engine_probe_report probe;
    struct tt_cut_plan *plan;
    int32_t *preferred; /* per node, its best batch size; NULL: not a cut by batch */
    char asked[512];    /* "stages 4" */
    char times[128];    /* how the times were measured */
};

/* Errors: those of loading, probing and choosing; the message begins with the name. */
TT_MUST_CHECK enum tt_err tt_slicer_new(const struct tt_slicer_options *options,
                                        struct tt_slicer **out_slicer, struct tt_error *why);
void tt_slicer_free(struct tt_slicer *take_slicer);
/* Creates `directory`, which must not exist. Errors: IO; INTERNAL (the outputs of the stages differ
 * from the whole model's; the directory is removed). */
TT_MUST_CHECK enum tt_err tt_slicer_write(struct tt_slicer *self, const char *directory,
                                          struct tt_error *why);
/* The cost of stages: the process's CPU time for a task of all stages and for one of the whole
 * model, with batches of `rows`, in alternation. */
struct tt_slicer_cost {
    int64_t whole_ns, stages_ns; /* medians of the runs */
    int64_t ratio_ppm;           /* the median of stages / whole over pairs of runs */
};
/* `directory` as tt_slicer_write made it; `runs` >= 1 pairs. */
TT_MUST_CHECK enum tt_err tt_slicer_cost(struct tt_slicer *self, const char *directory,
                                         int32_t rows, int32_t runs,
                                         struct tt_slicer_cost *out_cost, struct tt_error *why);
enum tt_slicer_origin {
    TT_SLICER_FOUND,     /* kept from an earlier run */
    TT_SLICER_MADE,      /* created by this call, and kept */
    TT_SLICER_TEMPORARY, /* created by this call in a private folder, for this process only */
};
/* The folder of the cut, created if necessary: in `home` if that is writable, else below
 * $XDG_CACHE_HOME or ~/.cache, else in a private folder below $TMPDIR or /tmp. After loading it,
 * the caller passes the folder to tt_slicer_release(). */
TT_MUST_CHECK enum tt_err tt_slicer_find(const struct tt_slicer_options *options, const char *home,
                                         char *out_directory, size_t capacity,
                                         enum tt_slicer_origin *out_origin, struct tt_error *why);
/* Removes the folder if it is temporary. A model that was loaded from it stays usable: its weights
 * are mapped. */
void tt_slicer_release(const char *directory, enum tt_slicer_origin origin);

#endif
