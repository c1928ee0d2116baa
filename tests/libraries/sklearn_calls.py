"""Estimators, metrics and functions of scikit-learn that work on arrays of any library.

A row is a function of `t`, which makes an array of the library from one of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import (
    calibration,
    decomposition,
    discriminant_analysis,
    kernel_approximation,
    linear_model,
    metrics,
    mixture,
    model_selection,
    naive_bayes,
    pipeline,
    preprocessing,
)
from sklearn.metrics import pairwise

_random = np.random.default_rng(0)
X = _random.normal(size=(60, 5))
COUNTS = np.abs(X) + 0.1
LABELS = (X[:, 0] + 0.3 * _random.normal(size=60) > 0).astype(np.int64)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
VALUES = X @ np.arange(1.0, 6.0) + 0.1 * _random.normal(size=60)
GUESSES = VALUES + 0.2 * _random.normal(size=60)
PREDICTED = np.where(_random.random(60) < 0.2, 1 - LABELS, LABELS)
SCORES = LABELS * 0.4 + _random.random(60) * 0.6
POSITIVE, POSITIVE_GUESS = np.abs(VALUES) + 0.1, np.abs(GUESSES) + 0.1

Row = Callable[[Callable[[Any], Any]], Any]


def transformed(make: Callable[[], Any]) -> Row:
    """The row of a transformer: the transformed samples."""
    return lambda t: make().fit(t(X), t(LABELS)).transform(t(X))


def predicted(make: Callable[[], Any], target: Any) -> Row:
    """The row of a classifier or a regression: the predictions."""
    return lambda t: make().fit(t(X), t(target)).predict(t(X))


def compared(metric: Callable[..., Any], true: Any, guess: Any, **options: Any) -> Row:
    """The row of a metric of two vectors."""
    return lambda t: metric(t(true), t(guess), **options)


def kernel(function: Callable[..., Any]) -> Row:
    """The row of a function of pairs of samples."""
    return lambda t: function(t(COUNTS[:40]), t(COUNTS[40:]))


ESTIMATORS: dict[str, Row] = {
    "StandardScaler": transformed(preprocessing.StandardScaler),
    "MinMaxScaler": transformed(preprocessing.MinMaxScaler),
    "MaxAbsScaler": transformed(preprocessing.MaxAbsScaler),
    "Normalizer": transformed(preprocessing.Normalizer),
    "Binarizer": transformed(preprocessing.Binarizer),
    "KernelCenterer": lambda t: preprocessing.KernelCenterer().fit_transform(t(X @ X.T)),
    "PolynomialFeatures": transformed(preprocessing.PolynomialFeatures),
    "LabelEncoder": lambda t: preprocessing.LabelEncoder().fit_transform(t(THREE)),
    "LabelBinarizer": lambda t: preprocessing.LabelBinarizer().fit_transform(t(THREE)),
    "PCA": lambda t: decomposition.PCA(3, svd_solver="full").fit(t(X)).inverse_transform(
        decomposition.PCA(3, svd_solver="full").fit_transform(t(X))),
    "LinearDiscriminantAnalysis": predicted(
        discriminant_analysis.LinearDiscriminantAnalysis, LABELS),
    "Ridge": predicted(lambda: linear_model.Ridge(solver="svd"), VALUES),
    "RidgeCV": predicted(linear_model.RidgeCV, VALUES),
    "RidgeClassifier": predicted(lambda: linear_model.RidgeClassifier(solver="svd"), LABELS),
    "LogisticRegression": predicted(
        lambda: linear_model.LogisticRegression(solver="lbfgs"), LABELS),
    "GaussianNB": predicted(naive_bayes.GaussianNB, THREE),
    "GaussianMixture": lambda t: mixture.GaussianMixture(
        2, init_params="random", random_state=0, max_iter=5).fit(t(X)).means_,
    "Nystroem": lambda t: kernel_approximation.Nystroem(
        "rbf", n_components=5, random_state=0).fit_transform(t(X)),
    "CalibratedClassifierCV": lambda t: calibration.CalibratedClassifierCV(
        linear_model.LogisticRegression(), method="temperature").fit(
            t(X), t(LABELS)).predict_proba(t(X)),
    "make_pipeline": lambda t: pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.Ridge(solver="svd")).fit(
            t(X), t(VALUES)).predict(t(X)),
    "GridSearchCV": lambda t: model_selection.GridSearchCV(
        linear_model.Ridge(solver="svd"), {"alpha": [0.1, 1.0]}).fit(t(X), t(VALUES)).predict(t(X)),
}

FUNCTIONS: dict[str, Row] = {
    "train_test_split": lambda t: model_selection.train_test_split(
        t(X), t(LABELS), random_state=0),
    "cross_val_predict": lambda t: model_selection.cross_val_predict(
        linear_model.Ridge(solver="svd"), t(X), t(VALUES)),
    "additive_chi2_kernel": kernel(pairwise.additive_chi2_kernel),
    "chi2_kernel": kernel(pairwise.chi2_kernel),
    "cosine_similarity": kernel(pairwise.cosine_similarity),
    "euclidean_distances": kernel(pairwise.euclidean_distances),
    "laplacian_kernel": kernel(pairwise.laplacian_kernel),
    "linear_kernel": kernel(pairwise.linear_kernel),
    "manhattan_distances": kernel(pairwise.manhattan_distances),
    "paired_cosine_distances": lambda t: pairwise.paired_cosine_distances(t(X), t(X[::-1].copy())),
    "polynomial_kernel": kernel(pairwise.polynomial_kernel),
    "rbf_kernel": kernel(pairwise.rbf_kernel),
    "sigmoid_kernel": kernel(pairwise.sigmoid_kernel),
}

METRICS: dict[str, Row] = {
    **{name: compared(getattr(metrics, name), LABELS, PREDICTED) for name in (
        "accuracy_score", "balanced_accuracy_score", "cohen_kappa_score", "confusion_matrix",
        "f1_score", "hamming_loss", "jaccard_score", "matthews_corrcoef",
        "multilabel_confusion_matrix", "precision_recall_fscore_support", "precision_score",
        "recall_score", "zero_one_loss")},
    **{name: compared(getattr(metrics, name), LABELS, SCORES) for name in (
        "average_precision_score", "brier_score_loss", "log_loss", "precision_recall_curve",
        "roc_auc_score", "roc_curve")},
    **{name: compared(getattr(metrics, name), VALUES, GUESSES) for name in (
        "d2_absolute_error_score", "explained_variance_score", "max_error", "mean_absolute_error",
        "mean_absolute_percentage_error", "mean_pinball_loss", "mean_squared_error",
        "median_absolute_error", "r2_score", "root_mean_squared_error")},
    **{name: compared(getattr(metrics, name), POSITIVE, POSITIVE_GUESS) for name in (
        "d2_tweedie_score", "mean_gamma_deviance", "mean_poisson_deviance",
        "mean_squared_log_error", "mean_tweedie_deviance")},
    "entropy": lambda t: metrics.cluster.entropy(t(LABELS)),
}

CALLS = {**ESTIMATORS, **FUNCTIONS, **METRICS}
