/* C1, C2: the cells of a model, as tutti.pbtxt names them and their ONNX files bear them out.
 *
 * A model of cells is no whole graph: a request is unfolded (model/cells/unfold.h) into cells,
 * small graphs that run once per element of a sequence, or per node of a tree. A *type* of cell is
 * one ONNX file, and one step of the model, in the order of tutti.pbtxt: later ones are more
 * urgent. Of each it is known here
 *   - its state: outputs that a later cell reads, and by which inputs (one per cell that it reads:
 *     a chain's cell has one, a tree's inner node one per child). State 0 of a cell is read as
 *     state 0 of the next, whatever the types; where there is nothing to read (the first cell of a
 *     chain, a state that the cell before does not have) an input begins as its `initial` value. A
 *     decoder that is fed its own words has them as a state that begins as <go>;
 *   - what it reads of the request: inputs that take one element of a tensor of the request, at the
 *     place that the unfold function names;
 *   - what it emits: an output of which the answer holds one per cell, in a row.
 *
 * The identity of a type (`digest`) is its file (definition and weights, those outside the file
 * too), its shapes and its wiring: cells of equal digest, of one model or of several, compute the
 * same and need one copy of the weights (engine/onnxruntime/ort_shared.h). Those of one model share
 * batches.
 *
 * Life of one: made when the repository is read, one per version; clients see its `signature`;
 * immutable until freed. It runs nothing, and knows no request. */
#ifndef TT_MODEL_CELLS_CELLS_H
#define TT_MODEL_CELLS_CELLS_H

#include "core/step_model.h"
#include "core/tensor.h"
#include "model/config/config.h"
#include "model/config/settings.h"
#include "model/onnx/onnx_file.h"
#include "model/text/digest.h"
#include "model/text/findings.h"

enum {
    TT_CELLS_MAX_TYPES = 16,
    TT_CELLS_MAX_STATES = 32,
    TT_CELLS_MAX_ARITY = 8, /* cells that one cell reads */
    TT_CELLS_MAX_EOS = 8,
    TT_CELLS_DEFAULT_MAX_BATCH = 64,
    TT_CELLS_DEFAULT_MAX_LENGTH = 4096,
};

struct tt_cell_state {
    int32_t output; /* of the type's outputs */
    /* Of the type's inputs, [arity]. Arity 0 (a leaf): none. */
    int32_t inputs[TT_CELLS_MAX_ARITY];
    int64_t initial; /* every element of a row, where there is nothing to read */
};

struct tt_cell_read {
    int32_t input; /* of the type's inputs */
    int32_t from;  /* of the request's inputs; one element: what follows its two first dimensions */
    int64_t below; /* integers are 0 .. below - 1; 0: not checked */
};

struct tt_cell_type {
    char *name;
    char *path;                    /* of the ONNX file */
    struct tt_signature signature; /* of the file; batched: dimension 0 counts cells */
    int32_t max_batch, min_batch;
    int32_t arity;
    uint32_t readable; /* bit t: it can read the states of type t */
    int32_t state_count, read_count;
    struct tt_cell_state states[TT_CELLS_MAX_STATES];
    struct tt_cell_read reads[TT_MAX_TENSORS];
    int32_t emit;           /* of the type's outputs; -1: nothing */
    enum tt_step_kind kind; /* STEPS: how often it runs */
    /* Per output of the request: which of the type's outputs it is. -1 in [0]: no cell of this type
     * can be the last of a request. */
    int32_t answers[TT_MAX_TENSORS];
    char digest[TT_DIGEST_BYTES];
};

enum tt_unfold_kind {
    TT_UNFOLD_CHAIN,   /* types: 1. A cell per element */
    TT_UNFOLD_SEQ2SEQ, /* types: encoder, decoder. Answers what the decoder emits */
    TT_UNFOLD_TREE,    /* types: leaf, inner node. A cell per node */
    TT_UNFOLD_PLUGIN,  /* as a shared object says */
    TT_UNFOLD_STEPS,   /* types: those of a step model. Without files only (tt_cells_new_plain) */
};

struct tt_unfold_plugin;

struct tt_cells {
    /* As clients see it: every input is [1, n, ...], a row that is the sequence; outputs are what
     * the last cell gives, or, of what is emitted, [1, m, ...]. */
    struct tt_signature signature;
    int32_t type_count;
    struct tt_cell_type *types; /* by step */
    enum tt_unfold_kind kind;
    int32_t max_length; /* elements of a request (nodes of a tree) */
    int32_t max_cells;  /* of one request */
    int32_t threshold;  /* a decoder emits at most so many more than its input is long, */
    int32_t max_output; /* and never more than this; 0: only `threshold` counts */
    /* L3: of the lengths of outputs, as tutti.pbtxt says; 0: as long as they can be. */
    int32_t output_quantiles[TT_QUANTILES];
    int32_t eos_count;
    int64_t eos[TT_CELLS_MAX_EOS];        /* a cell that emits one is the last of its chain */
    int32_t child_count;                  /* of an inner node */
    int32_t children[TT_CELLS_MAX_ARITY]; /* of the request's inputs: numbers of nodes; -1: none */
    struct tt_unfold_plugin *plugin;      /* NULL but where that is the kind */
};

/* Reads the cells' files in `version_directory`. What does not fit goes to `findings` as problems,
 * and `*out_cells` is then NULL. `settings` must name cells. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cells_open(const struct tt_model_settings *settings,
                                        const char *model_directory, const char *version_directory,
                                        struct tt_cells **out_cells, struct tt_findings *findings);
void tt_cells_close(struct tt_cells *take_cells);
/* Cells without files, for devices that take their time and compute nothing
 * (engine/emulated/emulated.h): a type per step of a step model. Requests walk its steps: a static
 * one is a cell, a recurrent block one of several steps that is repeated. A request is one input
 * `lengths`, INT32 [1, n]: an element per round of encoders, each of which says how many rounds
 * decoders will turn out to make. Their end is <eos>, as that of a real decoder. Or a binary tree
 * of leaves and inner nodes: its inputs are `left` and `right`, INT64 [1, nodes]. */
struct tt_cells_plain {
    int32_t step_count; /* a type each */
    const struct tt_step *steps;
    bool is_tree;
    int32_t max_length;
    int32_t max_output; /* rounds of decoders */
};
/* The strings are copied. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cells_new_plain(const struct tt_cells_plain *plain,
                                             struct tt_cells **out_cells);
/* The inputs and outputs as if they were those of one ONNX file, for a configuration to be
 * completed from. */
void tt_cells_present(const struct tt_cells *self, struct tt_onnx_file *out_file);
/* The completed configuration has the last word on the order of inputs and outputs, on which
 * outputs there are, and on shapes: `signature` becomes the configuration's. What it says and cells
 * cannot do is a problem. Once, before any use. */
void tt_cells_follow(struct tt_cells *self, const struct tt_model_config *config,
                     struct tt_findings *findings);
/* Is output `i` of the request emitted, one per cell? Else it is the last cell's. */
bool tt_cells_is_emitted(const struct tt_cells *self, int32_t i);
/* Does a cell that emitted `token` end its chain? */
static inline bool tt_cells_is_end(const struct tt_cells *self, int64_t token) {
    for (int32_t i = 0; i < self->eos_count; i++)
        if (self->eos[i] == token)
            return true;
    return false;
}

#endif
