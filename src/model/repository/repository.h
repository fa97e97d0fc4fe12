/* A model repository on disk, as Triton lays it out:
 *
 *   DIR/NAME/config.pbtxt      optional
 *   DIR/NAME/tutti.pbtxt       optional
 *   DIR/NAME/VERSION/model.onnx      or, where tutti.pbtxt names cells, an ONNX file per cell
 *
 * A version is a directory whose name is a number that does not begin with 0; other entries are
 * left alone. Entries of DIR that are no directories, or begin with a dot, are no models.
 *
 * Life of one: `_scan` reads everything that can be read without running a model; each model has
 * its findings, and one that has a problem does not stop the others. Whoever serves takes the
 * models without problems. Nothing is loaded here, and nothing is written. */
#ifndef TT_MODEL_REPOSITORY_REPOSITORY_H
#define TT_MODEL_REPOSITORY_REPOSITORY_H

#include "base/err.h"
#include "base/text.h"
#include "model/cells/cells.h"
#include "model/config/config.h"
#include "model/config/settings.h"
#include "model/text/findings.h"

enum { TT_REPOSITORY_MAX_VERSIONS = 256 };

struct tt_repository_version {
    int64_t number;
    char *path;             /* of the ONNX file; of a model of cells: the version's directory */
    struct tt_cells *cells; /* NULL: a model of one ONNX file */
};

struct tt_repository_model {
    char *name;
    char *directory;
    struct tt_findings findings;
    struct tt_model_config *config;     /* NULL where the file is unreadable */
    struct tt_model_settings *settings; /* NULL where the file is unreadable */
    int32_t version_count;              /* to be served; ascending */
    struct tt_repository_version *versions;
};

struct tt_repository {
    char *path;
    int32_t model_count;
    struct tt_repository_model *models; /* by name */
};

/* `engines`: those that could run the models (tt_engines), for the program's life.
 * `default_max_batch`: TT_MODEL_DEFAULT_MAX_BATCH, say. Errors: NOT_FOUND, IO (the directory cannot
 * be read), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_repository_scan(const char *path, const struct tt_engine_list *engines,
                                             int32_t default_max_batch,
                                             struct tt_repository **out_repository,
                                             struct tt_error *why);
/* The same of one model alone, with `config_json` (NULL: none) instead of its config.pbtxt. Errors:
 * also NOT_FOUND, where there is no directory of that name. */
TT_MUST_CHECK enum tt_err
tt_repository_scan_model(const char *path, const char *name, const struct tt_engine_list *engines,
                         const char *config_json, int32_t default_max_batch,
                         struct tt_repository **out_repository, struct tt_error *why);
/* Calls `each` per model directory, in no order, with a number that is another when any file in it
 * was changed, came or went. Errors: as scan's. */
typedef enum tt_err tt_repository_list_fn(void *context, const char *name, uint64_t fingerprint);
TT_MUST_CHECK enum tt_err tt_repository_list(const char *path, tt_repository_list_fn *each,
                                             void *context, struct tt_error *why);
/* That number of one model; 0 where it is not there. */
uint64_t tt_repository_fingerprint(const char *path, const char *name);
/* May a model be called so? Not empty, no '/', and not beginning with a dot. */
bool tt_repository_name_ok(const char *name);
void tt_repository_free(struct tt_repository *take_repository);
/* Borrowed; NULL if there is none. */
const struct tt_repository_model *tt_repository_find(const struct tt_repository *self,
                                                     const char *name);
/* May it serve? */
bool tt_repository_model_ok(const struct tt_repository_model *model);
/* For people: a line per model, its tensors, and every finding. */
void tt_repository_report(const struct tt_repository *self, struct tt_text *out_report);
/* For programs: [{"name", "ok", "versions", "findings": [{"kind", "sentence"}], "config",
 * "cells": [{"name", "max_batch", "min_batch", "reads", "states", "sha256"}]}]. Errors: NO_MEMORY.
 */
TT_MUST_CHECK enum tt_err tt_repository_report_json(const struct tt_repository *self,
                                                    struct tt_text *out_json);

#endif
