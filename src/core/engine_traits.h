/* What an engine says about itself as data: how models name it, what it needs of them, and what it
 * can do. Code outside src/engine asks these fields and never an engine's name.
 *
 * The traits are a part of the engine's kind (engine/engine_kind.h). They stand apart since the
 * repository of models needs them before any engine is opened. */
#ifndef TT_CORE_ENGINE_TRAITS_H
#define TT_CORE_ENGINE_TRAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tt_engine_traits {
    const char *name;     /* as `backend:` in config.pbtxt has it */
    const char *platform; /* the `platform:` that goes with it */
    bool needs_file; /* a version is an ONNX file (or one per cell); else config.pbtxt lists all
                        tensors, and no file is read */
    const char *file_name;   /* without needs_file: the file of a version, which the engine reads;
                                NULL: none */
    bool needs_profile;      /* a model without profile.pbtxt cannot be loaded */
    bool emulates;           /* computes nothing: there is nothing to measure or to cut */
    bool runs_cells;         /* models of cells (model/cells/cells.h) */
    bool runs_whole;         /* models of cells are one step to it: requests go elsewhere whole */
    bool runs_on_streams;    /* models of one graph can run on the streams of a device
                                (device/async_device.h) */
    bool separates_requests; /* the requests of a batch are computed each by itself: nothing is to
                                be found out about the rows of a batch */
    bool runs_programs;     /* models are programs with the server's rights: a client that loads one
                               brings neither files nor a configuration */
    bool has_own_instances; /* a model that states no instance group has one instance, and a domain
                               of its own */
    bool uses_gpus;         /* instance groups on GPUs run there; else they run on the CPU */
    bool opens_first; /* opened when a program starts, before it has threads; else when needed */
};

/* All engines of a program. The first is the default: of models that name none. */
struct tt_engine_list {
    int32_t count;
    const struct tt_engine_traits *const *traits;
};

/* `name` may be NULL or empty: the default. NULL: no engine has this name. */
static inline const struct tt_engine_traits *tt_engine_list_find(const struct tt_engine_list *self,
                                                                 const char *name) {
    if (!name || !*name)
        return self->traits[0];
    for (int32_t i = 0; i < self->count; i++)
        if (strcmp(self->traits[i]->name, name) == 0)
            return self->traits[i];
    return NULL;
}

#endif
