#include "model/cells/unfold_internal.h"

#include <stdlib.h>

struct tt_unfolded *tt_unfolded_new(int32_t spec_count, int32_t source_count, int32_t **out_sources,
                                    struct tt_error *why) {
    /* Largest alignment first, so that each part is aligned after the one before. */
    size_t specs = sizeof(struct tt_unfolded);
    size_t elements = specs + (size_t)spec_count * sizeof(struct tt_cell_spec);
    size_t sources = elements + (size_t)spec_count * sizeof(struct tt_unfold_elements);
    char *bytes = calloc(1, sources + (size_t)source_count * sizeof(int32_t));
    if (!bytes) {
        tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a request's cells");
        return NULL;
    }
    struct tt_unfolded *self = (struct tt_unfolded *)bytes;
    self->spec_count = spec_count;
    self->specs = (struct tt_cell_spec *)(bytes + specs);
    self->elements = (struct tt_unfold_elements *)(bytes + elements);
    *out_sources = (int32_t *)(bytes + sources);
    return self;
}

void tt_unfold_free(struct tt_unfolded *take_unfolded) { free(take_unfolded); }
