"""Every figure and table of the paper, and what its text states, with what to type."""

from __future__ import annotations

from gofstream.errors import InputError, nearest_names
from gofstream_studies.paper import (
    cmsl1,
    dimuon5d,
    expo1d,
    reconstruction,
    schemes,
    storage,
    timing,
    trends,
)
from gofstream_studies.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "schemes",
            "Figures scheme-1 and scheme-2",
            "one fit, and what each strategy keeps, as diagrams",
            0.05,
            0.05,
            schemes.schemes,
        ),
        Experiment(
            "reconstruction",
            "Figure 1D-reco-narrow",
            "what four batches and their aggregate learn of a small peak",
            0.2,
            1,
            reconstruction.reconstruction,
        ),
        Experiment(
            "expo1d-data",
            "Figure 1d-data, Table 1d-dataset",
            "the five signals, and the median Z of the ideal test for each",
            0.1,
            0.3,
            expo1d.ideal_table,
        ),
        Experiment(
            "expo1d-all",
            "Figures 1D-tail-1 and 1D-nplm-all-app",
            "power of all and sum against the number of batches",
            3,
            90,
            expo1d.all_and_sum,
        ),
        Experiment(
            "expo1d-one",
            "Figure 1D-nplm-one",
            "what one batch tells when all have been learnt from, against single and all",
            3,
            90,
            expo1d.one_and_single,
        ),
        Experiment(
            "expo1d-sat",
            "Figures 1D-nplm-sat and 1D-nplm-sat_ap",
            "what is left when the data are gone: sat against all and one",
            3,
            90,
            expo1d.sat_and_all,
        ),
        Experiment(
            "dimuon5d-data",
            "Table 5d-dataset",
            "the input columns and masses, and the median Z of the ideal test for each signal",
            0.2,
            0.5,
            dimuon5d.ideal_table,
        ),
        Experiment(
            "dimuon5d-all",
            "Figures 5D-zprime300-1, 5D-nplm-all-1 and 5D-nplm-all-2",
            "power of all and sum against the number of batches",
            5,
            200,
            dimuon5d.all_and_sum,
        ),
        Experiment(
            "dimuon5d-one",
            "Figures 5D-nplm-one and 5D-nplm-one-app",
            "what one batch tells when all have been learnt from, against single and all",
            5,
            200,
            dimuon5d.one_and_single,
        ),
        Experiment(
            "dimuon5d-sat",
            "Figures 5D-nplm-sat_aggr4 and 5D-nplm-sat_aggr1",
            "what is left when the data are gone: sat against all and one",
            5,
            200,
            dimuon5d.sat_and_all,
        ),
        Experiment(
            "cmsl1-data",
            "Figures cms-l1-input-panel1 and cms-l1-input-panel2",
            "the 24 input columns of the Standard Model and four signals",
            0.2,
            0.2,
            cmsl1.inputs,
        ),
        Experiment(
            "cmsl1-summary",
            "Figure summary-cms-l1",
            "median Z of every strategy for four signals",
            4,
            60,
            cmsl1.summary,
        ),
        Experiment(
            "time-per-batch",
            "Table hyper",
            "hyper-parameters and time per batch beside the paper's; time against batch size",
            2,
            10,
            timing.timing,
        ),
        Experiment(
            "processed-batches",
            "text: sensitivity scales with the statistics of the processed data",
            "power of one, sat and next after 1, 2, … 8 batches",
            3,
            90,
            trends.processed,
        ),
        Experiment(
            "reference-size",
            "text: the larger the reference, the more accurate the result",
            "power of all, sat and one against N_R, with λ and with λ N kept",
            3,
            50,
            trends.reference_size,
        ),
        Experiment(
            "penalty",
            "text: averaging makes up for under-regularised batches",
            "power of all in one and in eight batches against λ",
            4,
            40,
            trends.penalty,
        ),
        Experiment(
            "storage",
            "text: what has to be stored",
            "values and bytes kept by each strategy",
            0.1,
            0.2,
            storage.storage,
        ),
    )
}


def experiment(name: str) -> Experiment:
    """Look up an experiment.

    Raises
    ------
    InputError
        If there is none of this name.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"no experiment is called {name!r}; {nearest_names(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
