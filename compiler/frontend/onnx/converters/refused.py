"""Operators that are not imported, and why."""

from compiler.frontend.onnx.registry import refuse

refuse(
    "its result is random: a program gives the same for the same inputs",
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
)  # fmt: skip
refuse(
    "it works on text, which tensor programs do not have",
    "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
)  # fmt: skip
refuse("it reads image files; decode them before", "ImageDecoder")
refuse(
    "it is classical machine learning, not a tensor program",
    "ArrayFeatureExtractor", "Binarizer", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "Imputer",
    "LabelEncoder", "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "SVMClassifier",
    "SVMRegressor", "Scaler", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "ZipMap",
    domain="ai.onnx.ml",
)  # fmt: skip
for _domain in ("ai.onnx.preview.training", "ai.onnx.training"):
    refuse("it trains a model", "Adagrad", "Adam", "Gradient", "GraphCall", "Momentum", domain=_domain)
