/* libFuzzer target: any integers as a request that is to be unfolded. The first byte says how, the
 * others are elements, a tensor after the other. What is not refused must be in order, and, of a
 * tree, reach every node once. */
/* covers: model/cells/unfold.c */
#include "model/cells/unfold.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TENSORS = 4, VOCABULARY = 100, MAX_LENGTH = 64 };

static void check(const struct tt_cells *cells, const struct tt_unfolded *unfolded) {
    bool read[2 * MAX_LENGTH] = {0};
    int32_t sources = 0;
    tt_assert(unfolded->spec_count >= 1);
    tt_assert(unfolded->answer_spec < unfolded->spec_count);
    for (int32_t i = 0; i < unfolded->spec_count; i++) {
        const struct tt_cell_spec *spec = &unfolded->specs[i];
        tt_assert(spec->repeat >= 1);
        tt_assert(spec->source_count == 0 ||
                  spec->source_count == cells->types[spec->first_step].arity);
        for (int32_t k = 0; k < spec->source_count; k++) {
            tt_assert(spec->sources[k] >= 0);
            tt_assert(spec->sources[k] < i);
            tt_assert(!read[spec->sources[k]]);
            read[spec->sources[k]] = true;
            sources++;
        }
        const struct tt_cell_type *type = &cells->types[spec->first_step];
        int32_t last = tt_unfold_element(unfolded, i, spec->repeat - 1);
        if (type->read_count > 0)
            tt_assert(last * type->elements < unfolded->input_length);
    }
    tt_assert(sources == unfolded->spec_count - 1);
    tt_assert(!read[unfolded->answer_spec]);
}

static void make_cells(struct tt_cells *cells, struct tt_cell_type *types, uint8_t how) {
    cells->types = types;
    cells->type_count = 2;
    cells->kind = how % 4 == 0   ? TT_UNFOLD_CHAIN
                  : how % 4 == 1 ? TT_UNFOLD_SEQ2SEQ
                                 : TT_UNFOLD_TREE;
    cells->child_count = cells->kind == TT_UNFOLD_TREE ? 1 + how / 4 % (MAX_TENSORS - 1) : 0;
    cells->max_length = MAX_LENGTH;
    cells->threshold = how / 16;
    cells->signature.batched = true;
    cells->signature.input_count = 1 + cells->child_count;
    for (int32_t i = 0; i < cells->signature.input_count; i++) {
        struct tt_tensor_spec *spec = &cells->signature.inputs[i];
        spec->dtype = TT_DTYPE_INT64;
        spec->shape = (struct tt_shape){.rank = 2, .dims = {-1, -1}};
        spec->name[0] = (char)('a' + i);
        cells->children[i] = i + 1;
    }
    types[0].elements = cells->kind == TT_UNFOLD_TREE ? 1 : 1 + how / 4 % 4;
    types[1].elements = 1;
    types[0].read_count = 1;
    types[0].reads[0].below = VOCABULARY;
    types[0].arity = cells->kind != TT_UNFOLD_TREE;
    types[0].emit = -1;
    types[1].arity = cells->kind == TT_UNFOLD_TREE ? cells->child_count : 1;
    types[1].emit = cells->kind == TT_UNFOLD_SEQ2SEQ ? 0 : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    struct tt_cells *cells = calloc(1, sizeof(*cells));
    struct tt_cell_type *types = calloc(2, sizeof(*types));
    int64_t *elements = malloc(size * sizeof(*elements));
    tt_assert(cells && types && elements);
    make_cells(cells, types, data[0]);
    for (size_t i = 1; i < size; i++)
        elements[i - 1] = (int8_t)data[i];
    struct tt_unfold_tensor tensors[MAX_TENSORS];
    int64_t length = (int64_t)(size - 1) / cells->signature.input_count;
    for (int32_t i = 0; i < cells->signature.input_count; i++)
        tensors[i] = (struct tt_unfold_tensor){.bytes = elements + i * length,
                                               .shape = {.rank = 2, .dims = {1, length}}};
    struct tt_unfolded *unfolded = NULL;
    struct tt_error why = {""};
    if (tt_unfold_new(cells, tensors, &unfolded, &why) == TT_OK) {
        check(cells, unfolded);
        tt_unfold_free(unfolded);
    } else {
        tt_assert(strlen(why.text) > 0);
    }
    free(elements);
    free(types);
    free(cells);
    return 0;
}
