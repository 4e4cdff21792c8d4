"""Gaussian noise through models: the moments of the noise, and the averages that come out."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fedselect.embeddings import client_embeddings, gaussian_noise  # noqa: E402
from graphs import FeatureError, similarity  # noqa: E402


def inputs(count: int = 40) -> np.ndarray:
    """Correlated inputs of shape (count, 1, 2, 2) with different means and spreads per coordinate."""
    rng = np.random.default_rng(0)
    mixing = np.array([[1.0, 0.8, 0.0, 0.0], [0.0, 0.6, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    return (rng.normal(size=(count, 4)) @ mixing + [0, 5, -2, 7]).reshape(count, 1, 2, 2)


def test_paper_noise_has_the_mean_vector_and_covariance_matrix():
    X = inputs().reshape(40, 4)
    noise = gaussian_noise(inputs(), 200_000, np.random.default_rng(1)).reshape(-1, 4)
    np.testing.assert_allclose(noise.mean(axis=0), X.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(np.cov(noise.T), np.cov(X.T), atol=0.1)
    assert noise[:, 3].std() < 1e-12  # the last coordinate never varies, so neither does the noise's


def test_noise_as_in_the_code_has_scalar_moments():
    X = inputs()
    noise = gaussian_noise(X, 200_000, np.random.default_rng(1), convention="code").reshape(-1, 4)
    np.testing.assert_allclose(noise.mean(axis=0), X.mean(), atol=0.05)
    np.testing.assert_allclose(np.cov(noise.T), np.eye(4) * X.var(ddof=1), atol=0.3)


def test_embeddings_of_linear_models_are_the_models_of_the_mean_noise():
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)) for _ in range(5)]
    found = client_embeddings(models, torch.from_numpy(inputs()), np.random.default_rng(2), samples=64)
    mean = gaussian_noise(inputs(), 64, np.random.default_rng(2)).reshape(64, 4).mean(axis=0)
    for row, model in zip(found, models, strict=True):
        weight, bias = (p.detach().double().numpy() for p in model[1].parameters())
        np.testing.assert_allclose(row, weight @ mean + bias, atol=1e-5)
    assert found.dtype == np.float64
    V = similarity(found, "functional")
    assert V.shape == (5, 5)
    assert (V >= 0).all()


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 2),
        torch.nn.BatchNorm2d(2),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.9),
        torch.nn.Linear(2, 3),
    )


def test_the_same_model_and_seed_give_the_same_embedding_and_models_are_left_as_they_were():
    model = network()
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = client_embeddings([model, model], inputs(), np.random.default_rng(0))
    again = client_embeddings(iter([model]), inputs(), np.random.default_rng(0))
    assert (found[0] == found[1]).all()
    assert (found[0] == again[0]).all()
    assert [m.training for m in model] == [True, False, True, True, True]
    assert all((value == before[name]).all() for name, value in model.state_dict().items())
    assert not model[4]._forward_hooks


def test_a_layer_may_be_named():
    model = network().double()
    found = client_embeddings([model], inputs(), np.random.default_rng(0), layer="0")
    noise = torch.from_numpy(gaussian_noise(inputs(), 128, np.random.default_rng(0)))
    expected = model[0](noise).detach().numpy().reshape(128, 2).mean(axis=0)
    np.testing.assert_allclose(found[0], expected, atol=1e-12)
    with pytest.raises(FeatureError, match="client 0 has no layer 'fc'; it has '0', '1', '2', '3', '4'"):
        client_embeddings([model], inputs(), np.random.default_rng(0), layer="fc")


def test_what_cannot_be_embedded_gets_a_sentence():
    rng = np.random.default_rng(0)
    linear = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
    wider = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 5))
    with pytest.raises(FeatureError, match="there are no models"):
        client_embeddings([], inputs(), rng)
    with pytest.raises(FeatureError, match="client 1 has length 5 and that of client 0 has 3"):
        client_embeddings([linear, wider], inputs(), rng)
    with torch.no_grad():
        wider[1].bias[0] = float("nan")
    with pytest.raises(FeatureError, match="client 0 is not finite"):
        client_embeddings([wider], inputs(), rng)
    with pytest.raises(FeatureError, match=r"embedding of client 0 is \(4,\); accepted is one tensor"):
        client_embeddings([torch.nn.Flatten(0, -1)], np.ones((2, 4)), rng, samples=1)
    with pytest.raises(FeatureError, match=r"shape \(1, 4\); accepted are at least two inputs"):
        gaussian_noise(np.ones((1, 4)), 5, rng)
    with pytest.raises(FeatureError, match="holds a value that is not finite"):
        gaussian_noise([[np.nan], [1.0]], 5, rng)
    with pytest.raises(FeatureError, match="convention is 'reference'; accepted are 'paper', 'code'"):
        gaussian_noise(inputs(), 5, rng, convention="reference")
    with pytest.raises(FeatureError, match="samples is 0"):
        gaussian_noise(inputs(), 0, rng)
