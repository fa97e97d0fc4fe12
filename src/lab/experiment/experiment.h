/* An experiment: the file as read, with the changes of the command line or of a sweep.
 *
 * Life: _open reads and parses; _set replaces single values by name; _build checks everything and
 * makes a scenario of it (lab/scenario/scenario.h); _close. Errors name the line. The message may
 * be changed and built again any number of times, which is how sweeps and searches work. It runs
 * nothing. */
#ifndef TT_LAB_EXPERIMENT_EXPERIMENT_H
#define TT_LAB_EXPERIMENT_EXPERIMENT_H

#include "experiment.pb-c.h"
#include "lab/experiment/goodput.h"
#include "lab/scenario/scenario.h"
#include "model/text/textproto.h"

struct tt_experiment {
    char *path;     /* as given; for messages */
    char *folder;   /* relative file names start here */
    char *arrivals; /* a file from the command line, instead of the load; NULL: none */
    Tutti__Experiment *message;
    struct tt_textproto_places places;
};

TT_MUST_CHECK enum tt_err tt_experiment_open(struct tt_experiment *self, const char *path,
                                             struct tt_error *why);
void tt_experiment_close(struct tt_experiment *self);
/* Sets a parameter (a name as in ExperimentSweep.parameter) from its text. INVALID: no such
 * parameter or a bad value; the message does not name a file. */
TT_MUST_CHECK enum tt_err tt_experiment_set(struct tt_experiment *self, const char *parameter,
                                            const char *value, struct tt_error *why);
/* Replaces the load by a file of arrivals; the path is relative to the working directory. */
void tt_experiment_set_arrivals(struct tt_experiment *self, const char *path);
/* Errors are one line with file:line. Nothing is run or loaded, in any world. */
TT_MUST_CHECK enum tt_err tt_experiment_build(const struct tt_experiment *self,
                                              struct tt_scenario *out_scenario,
                                              struct tt_error *why);
/* Returns INVALID, with the path and the line of `field` of `message` before the text. */
enum tt_err tt_experiment_wrong(const struct tt_experiment *self, const void *message,
                                const char *field, struct tt_error *why, const char *format, ...)
    TT_PRINTF(5, 6);
/* The options of a goodput search, with defaults for those that the file does not set. */
struct tt_goodput_options tt_experiment_goodput(const struct tt_experiment *self);
/* The path of a name in the file, relative to the experiment's folder. The caller frees it. */
char *tt_experiment_path(const struct tt_experiment *self, const char *name);

#endif
