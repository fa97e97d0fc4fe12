#include "engine/engine_kind.h"

/* One line per engine kind. The first is the default. */
#define TT_ENGINE_KINDS(X)                                                                         \
    X(onnxruntime)                                                                                 \
    X(emulated)                                                                                    \
    X(wordpiece)                                                                                   \
    X(python)

#define TT_DECLARE_KIND(name) extern const struct tt_engine_kind tt_##name##_engine_kind;
TT_ENGINE_KINDS(TT_DECLARE_KIND)

#define TT_LIST_KIND(name) &tt_##name##_engine_kind,
static const struct tt_engine_kind *const kinds[] = {TT_ENGINE_KINDS(TT_LIST_KIND)};

#define TT_LIST_TRAITS(name) &tt_##name##_engine_kind.traits,
static const struct tt_engine_traits *const traits_of_kinds[] = {TT_ENGINE_KINDS(TT_LIST_TRAITS)};

int32_t tt_engine_kind_count(void) { return (int32_t)TT_COUNT(kinds); }

const struct tt_engine_kind *tt_engine_kind_at(int32_t index) {
    tt_assert(index >= 0 && index < tt_engine_kind_count());
    return kinds[index];
}

const struct tt_engine_list *tt_engines(void) {
    static const struct tt_engine_list list = {.count = TT_COUNT(traits_of_kinds),
                                               .traits = traits_of_kinds};
    return &list;
}

const struct tt_engine_kind *tt_engine_kind_of(const struct tt_engine_traits *traits) {
    return TT_CONTAINER_OF(traits, struct tt_engine_kind, traits);
}

const struct tt_engine_kind *tt_engine_kind_emulating(void) {
    for (size_t i = 0; i < TT_COUNT(kinds); i++)
        if (kinds[i]->traits.emulates)
            return kinds[i];
    return NULL;
}

enum tt_err tt_engine_runtime_open(const struct tt_engine_kind *kind,
                                   const struct tt_engine_runtime_options *options,
                                   struct tt_engine_runtime *out_runtime, struct tt_error *why) {
    void *shared = NULL;
    enum tt_err err = kind->open_shared ? kind->open_shared(options, &shared, why) : TT_OK;
    if (!err)
        *out_runtime = (struct tt_engine_runtime){.kind = kind, .shared = shared};
    return err;
}

void tt_engine_runtime_close(struct tt_engine_runtime *self) {
    if (self->kind && self->kind->close_shared)
        self->kind->close_shared(self->shared);
    *self = (struct tt_engine_runtime){0};
}

enum tt_err tt_engine_open(const struct tt_engine_runtime *runtime,
                           const struct tt_engine_options *options, struct tt_engine **out_engine,
                           struct tt_error *why) {
    return runtime->kind->open(runtime->shared, options, out_engine, why);
}

enum tt_err tt_engine_load(const struct tt_engine_runtime *runtime, struct tt_engine *engine,
                           const struct tt_engine_model_spec *spec,
                           struct tt_engine_model **out_model, struct tt_error *why) {
    const struct tt_engine_kind *kind = runtime->kind;
    const char *name = spec->name ? spec->name : spec->path ? spec->path : "model";
    if (spec->form == TT_ENGINE_STAGES && !kind->cutting)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "%s: backend '%s' runs no models in stages", name,
                       kind->traits.name);
    if (spec->form == TT_ENGINE_CELL_SET && !kind->traits.runs_cells)
        return tt_fail(TT_ERR_UNSUPPORTED, why, "%s: backend '%s' runs no models of cells", name,
                       kind->traits.name);
    return kind->load(engine, spec, out_model, why);
}

void tt_engine_adopt(const struct tt_engine_runtime *runtime, struct tt_engine *engine,
                     struct tt_engine_model *model) {
    tt_assert(engine->ops == model->engine->ops);
    if (runtime->kind->adopt)
        runtime->kind->adopt(engine, model);
    else
        model->engine = engine;
}
