/* C1, C2: the cells of a model, as tutti.pbtxt names them and their ONNX files define them.
 *
 * A model of cells is not one whole graph. A request is unfolded (model/cells/unfold.h) into cells:
 * small graphs that run once per element of a sequence, or per node of a tree. A *type* of cell is
 * one ONNX file and one step of the model, in the order of tutti.pbtxt; later types are more
 * urgent. A type has:
 * - Its state: outputs that a later cell reads, and the inputs that read them, one per cell that it
 *   reads. A chain's cell reads one; a tree's inner node reads one per child. State 0 of a cell is
 *   read as state 0 of the next, whatever the types. An input that has nothing to read (the first
 *   cell of a chain, or a state that the cell before lacks) is filled with `initial`. A decoder
 *   that reads its own words has them as a state that begins as <go>. States that are in place are
 *   the request's cache (engine/cell_set.h).
 * - Its reads of the request: inputs that take one element of a tensor of the request, at the index
 *   that the unfold function sets. If it reads several `elements`, the index counts chunks: chunk k
 *   begins at element k * elements, and what the last chunk lacks is filled up.
 * - Its emission: an output of which the answer holds one per cell, in order.
 *
 * The identity of a type (`digest`) covers its file (definition and weights, also those in other
 * files), its shapes and its wiring. Cells of equal digest, in one model or several, compute the
 * same and share one copy of the weights (engine/onnxruntime/ort_shared.h). If their outputs also
 * have the same uses (tt_cells_key), cells of several models share batches.
 *
 * Life: made when the repository is read, one per version; immutable until freed. Clients see its
 * `signature`. It runs nothing and knows no request. */
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
    TT_CELLS_MAX_ARITY = 8, /* maximum number of cells that one cell reads */
    TT_CELLS_MAX_EOS = 8,
    TT_CELLS_MAX_ELEMENTS = 4096, /* maximum number of elements that one cell reads */
    TT_CELLS_DEFAULT_MAX_BATCH = 64,
    TT_CELLS_DEFAULT_MAX_LENGTH = 4096,
};

struct tt_cell_state {
    int32_t output; /* index of the type's output */
    /* Indices of the type's inputs, [arity]. Arity 0 (a leaf): none. */
    int32_t inputs[TT_CELLS_MAX_ARITY];
    int64_t initial; /* value of every element if there is nothing to read */
    bool in_place;   /* the output is written over the input */
};

struct tt_cell_read {
    int32_t input; /* index of the type's input */
    int32_t from;  /* index of the request's input; its first two dimensions are [1, n] */
    int64_t below; /* valid integers are 0 .. below - 1; 0: not checked */
    int64_t fill;  /* value of the elements that the last chunk of a request lacks */
};

struct tt_cell_type {
    char *name;
    char *path;                    /* of the ONNX file */
    struct tt_signature signature; /* of the file; batched: dimension 0 counts cells */
    int32_t max_batch, min_batch;
    int32_t elements; /* adjacent elements of the request that a cell reads; >= 1 */
    int32_t arity;
    uint32_t readable; /* bit t: it can read the states of type t */
    int32_t state_count, read_count;
    bool has_cache; /* some states are in place */
    struct tt_cell_state states[TT_CELLS_MAX_STATES];
    struct tt_cell_read reads[TT_MAX_TENSORS];
    int32_t emit;           /* index of the type's output; -1: it emits nothing */
    enum tt_step_kind kind; /* STEPS only: how often it runs */
    /* Per output of the request: the index of the type's output. -1 in [0]: a cell of this type
     * cannot be the last of a request. */
    int32_t answers[TT_MAX_TENSORS];
    char digest[TT_DIGEST_BYTES];
};

enum tt_unfold_kind {
    TT_UNFOLD_CHAIN,   /* types: 1. One cell per element */
    TT_UNFOLD_SEQ2SEQ, /* types: encoder, decoder. The answer is what the decoder emits */
    TT_UNFOLD_TREE,    /* types: leaf, inner node. One cell per node */
    TT_UNFOLD_PLUGIN,  /* defined by a shared object */
    TT_UNFOLD_STEPS, /* types: the steps of a step model. Only without files (tt_cells_new_plain) */
};

struct tt_unfold_plugin;

struct tt_cells {
    /* As clients see it. Every input is [1, n, ...]: one row that is the sequence. An output is
     * that of the last cell, or, if it is emitted, [1, m, ...]. */
    struct tt_signature signature;
    int32_t type_count;
    struct tt_cell_type *types; /* indexed by step */
    enum tt_unfold_kind kind;
    int32_t max_length; /* maximum number of elements of a request (nodes of a tree) */
    int32_t max_cells;  /* maximum number of cells of a request */
    int32_t threshold;  /* a decoder emits at most this many more than its input is long, */
    int32_t max_output; /* and never more than this; 0: no such limit */
    /* L3: quantiles of output lengths from tutti.pbtxt; 0: no limit known. */
    int32_t output_quantiles[TT_QUANTILES];
    bool pins_outputs; /* they are believed, whatever lengths are seen */
    int32_t eos_count;
    int64_t eos[TT_CELLS_MAX_EOS]; /* a cell that emits one of these is the last of its chain */
    int32_t child_count;           /* children of an inner node */
    int32_t children[TT_CELLS_MAX_ARITY]; /* request's inputs with child nodes; -1: none */
    struct tt_unfold_plugin *plugin;      /* NULL unless `kind` is PLUGIN */
};

/* Reads the cells' files in `version_directory`. Mistakes go to `findings` as problems, and
 * `*out_cells` is then NULL. `settings` must name cells. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cells_open(const struct tt_model_settings *settings,
                                        const char *model_directory, const char *version_directory,
                                        struct tt_cells **out_cells, struct tt_findings *findings);
void tt_cells_close(struct tt_cells *take_cells);
/* Cells without files, for devices that take time and compute nothing (engine/emulated/emulated.h):
 * one type per step of a step model.
 * - A request walks the steps: a static step is one cell, a recurrent block is a cell of several
 *   steps that repeats. The request has one input `lengths`, INT32 [1, n]: one element per encoder
 *   round. Each element says how many rounds the decoders will make. Their end is <eos>, as for a
 *   real decoder.
 * - Or a request is a binary tree of leaves and inner nodes, with the inputs `left` and `right`,
 *   INT64 [1, nodes]. */
struct tt_cells_plain {
    int32_t step_count; /* number of types, one per step */
    const struct tt_step *steps;
    bool is_tree;
    int32_t max_length;
    int32_t max_output; /* maximum number of decoder rounds */
};
/* Copies the strings. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_cells_new_plain(const struct tt_cells_plain *plain,
                                             struct tt_cells **out_cells);
/* Presents the inputs and outputs as those of one ONNX file, so that a configuration can be
 * completed from them. */
void tt_cells_present(const struct tt_cells *self, struct tt_onnx_file *out_file);
/* Adopts the completed configuration: the order of inputs and outputs, the choice of outputs, and
 * the shapes. `signature` becomes the configuration's. Settings that cells do not support are
 * problems. Call it once, before any use. */
void tt_cells_follow(struct tt_cells *self, const struct tt_model_config *config,
                     struct tt_findings *findings);
/* Bytes of a request's states in place; 0: the type has none. */
int64_t tt_cell_type_cache_bytes(const struct tt_cell_type *self);
/* C1: what names the type in other models: equal keys are equal cells whose outputs have the same
 * uses. 0: it has no file, or has a cache, and is like no other. */
uint64_t tt_cells_key(const struct tt_cells *self, int32_t type);
/* True if output `i` of the request is emitted, one per cell; else it is that of the last cell. */
bool tt_cells_is_emitted(const struct tt_cells *self, int32_t i);
/* How many cells read a sequence of `length` elements: the rounds of type 0. */
static inline int32_t tt_cells_rounds(const struct tt_cells *self, int32_t length) {
    int32_t elements = self->types[0].elements;
    return length / elements + (length % elements > 0);
}
/* True if a cell that emitted `token` ends its chain. */
static inline bool tt_cells_is_end(const struct tt_cells *self, int64_t token) {
    for (int32_t i = 0; i < self->eos_count; i++)
        if (self->eos[i] == token)
            return true;
    return false;
}

#endif
