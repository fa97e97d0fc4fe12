#include "base/spares.h"

#include "base/err.h"

#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, count) ((void)(at), (void)(count))
#define ASAN_UNPOISON_MEMORY_REGION(at, count) ((void)(at), (void)(count))
#endif

struct tt_spare { /* the beginning of a free object */
    struct tt_spare *next;
};

void tt_spares_init(struct tt_spares *self, size_t object_bytes, int32_t limit) {
    tt_assert(object_bytes >= sizeof(struct tt_spare));
    *self = (struct tt_spares){.object_bytes = object_bytes, .limit = limit};
}

/* The first spare one, usable again. */
static struct tt_spare *pop(struct tt_spares *self) {
    struct tt_spare *spare = self->first;
    ASAN_UNPOISON_MEMORY_REGION(spare, self->object_bytes);
    self->first = spare->next;
    self->count--;
    return spare;
}

void tt_spares_fini(struct tt_spares *self) {
    while (self->first)
        free(pop(self));
    tt_assert(self->count == 0);
}

void *tt_spares_take(struct tt_spares *self) {
    return self->first ? pop(self) : malloc(self->object_bytes);
}

void tt_spares_give(struct tt_spares *self, void *take_object) {
    struct tt_spare *spare = take_object;
    if (self->count == self->limit) {
        free(spare);
        return;
    }
    spare->next = self->first;
    self->first = spare;
    self->count++;
    ASAN_POISON_MEMORY_REGION(spare, self->object_bytes);
}
