/* An experiment: the file as read, with what the command line or a sweep changed in it.
 *
 * Life: _open reads and parses; _set replaces single values by name; _build makes a scenario of it
 * (scenario.h), checks everything that makes no sense and names the line; _close. The message may
 * be changed and built again any number of times, which is how sweeps and searches work. It runs
 * nothing itself. */
#ifndef TT_LAB_EXPERIMENT_EXPERIMENT_H
#define TT_LAB_EXPERIMENT_EXPERIMENT_H

#include "experiment.pb-c.h"
#include "lab/experiment/goodput.h"
#include "lab/scenario/scenario.h"
#include "model/text/textproto.h"

struct tt_experiment {
    char *path;     /* as given; for messages */
    char *folder;   /* relative file names start here */
    char *arrivals; /* instead of the file's load, as named on the command line; NULL: none */
    Tutti__Experiment *message;
    struct tt_textproto_places places;
};

TT_MUST_CHECK enum tt_err tt_experiment_open(struct tt_experiment *self, const char *path,
                                             struct tt_error *why);
void tt_experiment_close(struct tt_experiment *self);
/* Sets a parameter (the names of ExperimentSweep.parameter) from its text. INVALID: no such
 * parameter or a bad value; the message does not name a file. */
TT_MUST_CHECK enum tt_err tt_experiment_set(struct tt_experiment *self, const char *parameter,
                                            const char *value, struct tt_error *why);
/* The file of arrivals instead of the load it describes; relative to the working directory.
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_experiment_set_arrivals(struct tt_experiment *self, const char *path,
                                                     struct tt_error *why);
/* Errors are one line with file:line. Nothing is run or loaded, whatever the world. */
TT_MUST_CHECK enum tt_err tt_experiment_build(const struct tt_experiment *self,
                                              struct tt_scenario *out_scenario,
                                              struct tt_error *why);
/* INVALID, with "path:line: " before the text, where `field` of `message` stands. */
enum tt_err tt_experiment_wrong(const struct tt_experiment *self, const void *message,
                                const char *field, struct tt_error *why, const char *format, ...)
    TT_PRINTF(5, 6);
/* How it wants a search for the goodput to be, and what stands for what it does not say. */
struct tt_goodput_options tt_experiment_goodput(const struct tt_experiment *self);
/* A name from the file as one that can be opened: relative to the experiment's folder. Caller
 * frees; NULL: no memory. */
char *tt_experiment_path(const struct tt_experiment *self, const char *name);

#endif
